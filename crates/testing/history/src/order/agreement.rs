//! The search agrees with a published checker of linearizability, `todc-utils`, on right and wrong
//! histories.
//!
//! [`super::check`] does not use it because it is far slower, and does not tell where a history goes wrong.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action as Event, History as Actions};
use todc_utils::specifications::Specification;

use super::candidate::Candidate;
use super::lock_state::State;
use super::operation::{Need, Operation, What, operations};
use super::search::{Verdict, search};
use super::times::{Scene, Times};
use crate::clock::ServerClock;
use crate::story::Story;
use crate::{Acquire, Action, Call, Granted, History, Mode, Outcome, Refusal};

/// Longer than any history here.
const LEASE: u64 = 1_000_000;

/// All that a lock may be, as one state.
type Candidates<'a> = BTreeMap<State<'a>, Times>;

struct AnyLock<'a>(PhantomData<&'a ()>);

#[derive(Clone)]
struct Step<'a> {
    operation: &'a Operation<'a>,
    index: usize,
    story: &'a Story<'a>,
}

impl fmt::Debug for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.operation, f)
    }
}

impl<'a> Specification for AnyLock<'a> {
    type State = Candidates<'a>;
    type Operation = Step<'a>;

    fn init() -> Candidates<'a> {
        let Candidate { state, times } = Candidate::new();
        BTreeMap::from([(state, times)])
    }

    fn apply(step: &Step<'a>, before: &Candidates<'a>) -> (bool, Candidates<'a>) {
        let Step {
            operation,
            index,
            story,
        } = step;
        let scene = Scene::at(operation.ended, story);
        let mut after = Candidates::new();
        let mut add = |candidate: Candidate<'a>| {
            let times = after
                .entry(candidate.state)
                .or_insert_with(|| candidate.times.clone());
            *times = times.or(&candidate.times);
        };
        for (state, times) in before {
            let candidate = Candidate {
                state: state.clone(),
                times: times.clone(),
            };
            let lapsed = candidate.lapses(scene);
            for candidate in lapsed.into_iter().chain([candidate]) {
                let nexts = match operation.what {
                    What::GiveBack(call) => {
                        let mut nexts = candidate.give_backs(scene);
                        nexts.retain(|next| !owes(next, call));
                        nexts
                    }
                    _ => candidate.after(operation, *index, scene),
                };
                for next in nexts {
                    add(next);
                }
                let left_out = match operation.what {
                    What::GiveBack(call) => !owes(&candidate, call),
                    _ => operation.need() == Need::May,
                };
                if left_out {
                    add(candidate);
                }
            }
        }
        if after.is_empty() {
            (false, before.clone())
        } else {
            (true, after)
        }
    }
}

fn owes(candidate: &Candidate<'_>, call: usize) -> bool {
    candidate.state.owes(call)
}

/// The verdicts of both on a history.
fn verdicts(history: &History) -> (bool, bool) {
    let clock = ServerClock::new(&history.facts.steps);
    let stories = Story::all(history, Mode::Strict, &clock, &[]);
    let story = &stories[0];
    let operations = operations(story);
    let own = matches!(search(&operations, story), Verdict::Explained);
    let mut actions = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let step = Step {
            operation,
            index,
            story,
        };
        actions.push((operation.sent, index, Event::Call(step.clone())));
        actions.push((operation.ended, index, Event::Response(step)));
    }
    actions.sort_by_key(|(moment, _, action)| (*moment, matches!(action, Event::Response(_))));
    let actions = actions
        .into_iter()
        .map(|(_, index, action)| (index, action));
    let actions = Actions::from_actions(actions.collect());
    (own, WGLChecker::<AnyLock<'_>>::is_linearizable(actions))
}

/// Calls of three owners on one lock, which overlap, with the replies of a lock that takes each at some moment of it;
/// with a reply that no such lock gives, if one is `wrong`. Leases do not end: the published checker knows no time.
fn random_history(seed: u64, wrong: bool) -> History {
    let mut random = StdRng::seed_from_u64(seed);
    let mut holder: Option<(String, u64, u32)> = None;
    let mut last_token = 0;
    let mut calls = Vec::new();
    for client in 0..60 {
        let owner = ["ann", "bob", "cat"][random.random_range(0..3)].to_owned();
        let at = u64::from(client) * 1000 + 10_000;
        let (action, outcome) = if random.random_range(0..3) == 0 {
            let outcome = match &holder {
                None => Outcome::Refused(Refusal::NotHeld),
                Some((of, ..)) if *of != owner => Outcome::Refused(Refusal::NotOwner),
                Some(_) => Outcome::Left(0),
            };
            holder = holder.filter(|(of, ..)| *of != owner);
            (Action::RELEASE, outcome)
        } else {
            let action = Action::Acquire(Acquire {
                lease: Some(LEASE),
                ..Acquire::default()
            });
            let (of, token, holds) = holder.get_or_insert_with(|| {
                last_token += 10;
                (owner.clone(), last_token, 0)
            });
            let outcome = if *of == owner {
                *holds += 1;
                Outcome::Grant(Granted {
                    token: *token,
                    owner: owner.clone(),
                    holds: *holds,
                    lease: LEASE,
                    limit: None,
                })
            } else {
                Outcome::Nil
            };
            (action, outcome)
        };
        let is_lost = random.random_range(0..10) == 0;
        let sent = at - random.random_range(0..5000);
        let ended = at + random.random_range(1..5000);
        let outcome = if is_lost { Outcome::Lost } else { outcome };
        calls.push(Call::sent(client, "lock", &owner, action, sent).ended(ended, outcome));
    }
    if wrong {
        let which = random.random_range(0..calls.len());
        calls[which].outcome = match &calls[which].outcome {
            Outcome::Nil => Outcome::Refused(Refusal::Deadlock),
            Outcome::Left(_) => Outcome::Refused(Refusal::NotHeld),
            Outcome::Refused(_) => Outcome::Left(0),
            _ => Outcome::Nil,
        };
    }
    History {
        calls,
        ..History::default()
    }
}

#[test]
fn the_search_agrees_with_a_published_checker() {
    let mut seen = BTreeMap::new();
    for seed in 0..300 {
        let (own, published) = verdicts(&random_history(seed, seed % 2 == 1));
        assert_eq!(own, published, "{seed}");
        *seen.entry(own).or_insert(0) += 1;
    }
    assert!(seen.values().all(|count| *count > 50), "{seen:?}");
    assert_eq!(seen.len(), 2, "right ones and wrong ones");
}
