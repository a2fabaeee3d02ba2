//! The answers of a scenario's workers, and whether the servers agree.

use crate::failure::{Failure, Verdict};
use crate::limits::wait_for;
use crate::site::{Seen, Site};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// Names what a worker numbers.
pub(crate) type Number = (usize, u64);

/// A lock that a worker was told it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    /// Which worker, and how that calls it.
    pub(crate) number: Number,
    /// The `Locks` that it came from.
    pub(crate) locks: String,
    pub(crate) key: String,
    pub(crate) owner: String,
    pub(crate) token: u64,
}

/// A worker's knowledge of its grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Held,
    /// A release is under way.
    Releasing,
    Released,
    Lost(Instant),
}

/// All that was told.
#[derive(Default)]
pub(crate) struct Ledger {
    told: Mutex<Told>,
    changed: Condvar,
}

#[derive(Default)]
struct Told {
    grants: HashMap<Number, (Grant, State)>,
    /// Acquires without an answer, and their keys.
    waiting: HashMap<Number, String>,
    keys: BTreeSet<String>,
    /// Workers that have ended: their last lines may be read later.
    gone: BTreeSet<usize>,
    wrongs: Vec<String>,
}

/// The answers before a look at the servers.
struct Expected {
    /// By key.
    held: HashMap<String, BTreeSet<String>>,
    pending: HashMap<String, usize>,
}

/// How long the servers may differ from what was told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slack {
    /// An owner may still hold a lock, or wait for it, after it was notified of the end.
    pub(crate) leftover: Duration,
    /// A lock may be gone from one that has not been told.
    pub(crate) untold: Duration,
}

impl Ledger {
    /// Notes what is wrong, for the end of the scenario.
    pub(crate) fn wrong(&self, what: String) {
        self.told().wrongs.push(what);
    }

    /// The first of what was noted as wrong.
    pub(crate) fn judge(&self) -> Verdict {
        match self.told().wrongs.first() {
            Some(wrong) => Err(Failure::Wrong(wrong.clone())),
            None => Ok(()),
        }
    }

    pub(crate) fn asked(&self, call: Number, key: &str) {
        let mut told = self.told();
        told.keys.insert(key.to_owned());
        told.waiting.insert(call, key.to_owned());
    }

    /// An acquire has been answered.
    pub(crate) fn answered(&self, call: Number, grant: Option<&Grant>) {
        let mut told = self.told();
        told.waiting.remove(&call);
        if let Some(grant) = grant.filter(|grant| !told.gone.contains(&grant.number.0)) {
            let new = (grant.clone(), State::Held);
            if told.grants.insert(grant.number, new).is_some() {
                let text = format!("two grants have the number {}", grant.number.1);
                told.wrongs.push(text);
            }
        }
    }

    /// The releases of these grants have been sent, or answered.
    pub(crate) fn release(&self, which: impl Fn(&Grant) -> bool, answered: bool) {
        for (grant, state) in self.told().grants.values_mut() {
            if which(grant) && matches!(state, State::Held | State::Releasing) {
                *state = if answered {
                    State::Released
                } else {
                    State::Releasing
                };
            }
        }
    }

    /// An event has told of a loss.
    pub(crate) fn lost(&self, number: Number) {
        let mut told = self.told();
        let is_gone = told.gone.contains(&number.0);
        let wrong = match told.grants.get_mut(&number) {
            None if is_gone => None,
            None => Some("a loss was told of a grant that was not".to_owned()),
            Some((grant, State::Lost(_))) => {
                Some(format!("the loss of {} was told twice", grant.key))
            }
            Some((_, State::Released)) => None,
            Some((_, state)) => {
                *state = State::Lost(Instant::now());
                None
            }
        };
        told.wrongs.extend(wrong);
        drop(told);
        self.changed.notify_all();
    }

    /// A check has said that it is held.
    pub(crate) fn said_to_be_held(&self, number: Number) {
        let mut told = self.told();
        let wrong = match told.grants.get(&number) {
            Some((Grant { key, .. }, State::Lost(_))) => Some(format!(
                "{key} was reported as lost, and is said to be held"
            )),
            _ => None,
        };
        told.wrongs.extend(wrong);
    }

    /// The process of a worker has ended.
    pub(crate) fn gone(&self, worker: usize) {
        let mut told = self.told();
        told.gone.insert(worker);
        told.waiting.retain(|(of, _), _| *of != worker);
        told.grants.retain(|(of, _), _| *of != worker);
    }

    /// When the loss of a grant was told; waits for it so long.
    pub(crate) fn loss(&self, grant: &Grant, limit: Duration) -> Option<Instant> {
        wait_for(limit, || match self.told().grants.get(&grant.number)? {
            (_, State::Lost(at)) => Some(*at),
            _ => None,
        })
    }

    /// The grants that the workers believe to hold.
    pub(crate) fn held(&self) -> Vec<Grant> {
        let told = self.told();
        let held = told
            .grants
            .values()
            .filter(|(_, state)| *state == State::Held);
        held.map(|(grant, _)| grant.clone()).collect()
    }

    /// Every key that was ever asked for.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.told().keys.iter().cloned().collect()
    }

    /// No owner holds or waits for a lock after it was notified of the end, and each owner that was notified of no loss
    /// holds what it was granted.
    pub(crate) fn agrees(&self, site: &Site, slack: Slack) -> Verdict {
        let begun = Instant::now();
        let mut last = None;
        let agreed = wait_for(slack.leftover.max(slack.untold), || {
            let keys = self.keys();
            let before = self.expected();
            let seen = site.look(&keys)?;
            let differs = self.told().compare(&before, &keys, &seen);
            let over = |limit: Duration| begun.elapsed() > limit + crate::limits::lateness(begun);
            match differs {
                None => return Some(Ok(())),
                Some((false, text)) if over(slack.leftover) => return Some(Err(text)),
                Some((true, text)) if over(slack.untold) => return Some(Err(text)),
                Some((_, text)) => last = Some(text),
            }
            None
        });
        match agreed {
            Some(Ok(())) => Ok(()),
            Some(Err(text)) => Err(Failure::Wrong(text)),
            None => Err(last.unwrap_or_else(|| "the server does not answer".to_owned()))?,
        }
    }

    fn expected(&self) -> Expected {
        let mut held: HashMap<_, BTreeSet<_>> = HashMap::new();
        for grant in self.held() {
            held.entry(grant.key).or_default().insert(grant.owner);
        }
        Expected {
            held,
            pending: self.told().pending(),
        }
    }

    fn told(&self) -> std::sync::MutexGuard<'_, Told> {
        self.told.lock().expect("what was told")
    }
}

impl Told {
    /// What differs, and whether it is a loss that was not self.
    fn compare(&self, before: &Expected, keys: &[String], seen: &[Seen]) -> Option<(bool, String)> {
        let mut may_hold: HashMap<&str, BTreeSet<&str>> = HashMap::new();
        for (grant, state) in self.grants.values() {
            if matches!(state, State::Held | State::Releasing) {
                may_hold.entry(&grant.key).or_default().insert(&grant.owner);
            }
        }
        let after = self.pending();
        let mut untold = None;
        for (key, seen) in keys.iter().zip(seen) {
            let key = key.as_str();
            let may_hold = may_hold.get(key).cloned().unwrap_or_default();
            let owners = before.held.get(key);
            let was_held = |owner: &String| owners.is_some_and(|owners| owners.contains(owner));
            // A call that is under way may hold, or wait, or both in turn.
            let count =
                |pending: &HashMap<String, usize>| pending.get(key).copied().unwrap_or_default();
            let pending = count(&before.pending).max(count(&after));
            let is_strange = |it: &&String| !may_hold.contains(it.as_str()) && !was_held(it);
            let strangers: Vec<_> = seen.holders.iter().filter(is_strange).collect();
            let waiters: Vec<_> = seen.waiters.iter().collect();
            for (all, how) in [(strangers, "held"), (waiters, "waited for")] {
                if all.len() > pending {
                    let text = format!(
                        "{key} is {how} by {}, which was notified that this has ended",
                        all[0]
                    );
                    return Some((false, text));
                }
            }
            let mut missing = owners
                .into_iter()
                .flatten()
                .filter(|owner| may_hold.contains(owner.as_str()) && !seen.holders.contains(owner));
            if let Some(owner) = missing.next() {
                let text = format!("{key} is not held by {owner}, who was not told");
                untold = Some((true, text));
            }
        }
        untold
    }

    /// How many calls for each lock have no answer.
    fn pending(&self) -> HashMap<String, usize> {
        let mut pending = HashMap::new();
        for key in self.waiting.values() {
            *pending.entry(key.clone()).or_default() += 1;
        }
        pending
    }
}

/// A ledger that several workers write to.
pub(crate) type Shared = Arc<Ledger>;
