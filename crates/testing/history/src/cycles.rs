//! A call that fails with DEADLOCK would have closed a cycle.
//!
//! This is about several locks. At one moment of the call its owner must have waited for somebody who can
//! have held the lock, who can have waited for another, and so on, back to the owner. Which of several
//! holders must go is not asked.

use std::collections::{BTreeSet, HashMap};

use crate::grants::Grants;
use crate::report::{Kind, Report, Violation};
use crate::rules::blocks;
use crate::story::Story;
use crate::{Action, Call, Moment, Outcome, Refusal, Span};

pub(crate) fn check(stories: &[Story<'_>], report: &mut Report) {
    let told = |call: &&Call| call.outcome == Outcome::Refused(Refusal::Deadlock);
    let calls = stories.iter().flat_map(|story| story.calls.iter().copied());
    let told: Vec<_> = calls.filter(told).collect();
    if told.is_empty() {
        return;
    }
    report.counts.deadlocks += told.len();
    let all = All::of(stories);
    for call in told {
        if !all.closes(call) {
            report.violations.push(Violation {
                kind: Kind::NoCycle,
                key: call.key.clone(),
                text: call.to_string(),
            });
        }
    }
}

/// When somebody can have held a lock.
struct Hold<'a> {
    owner: &'a str,
    span: Span,
}

/// The locks that each owner can have held, and waited for.
struct All<'a> {
    holds: HashMap<&'a str, Vec<Hold<'a>>>,
    waits: HashMap<&'a str, Vec<&'a Call>>,
}

impl<'a> All<'a> {
    fn of(stories: &[Story<'a>]) -> Self {
        let holds = stories.iter().map(|story| (story.key, holds(story)));
        let mut waits: HashMap<_, Vec<_>> = HashMap::new();
        for call in stories.iter().flat_map(|story| story.calls.iter().copied()) {
            if blocks(call) {
                waits.entry(call.owner.as_str()).or_default().push(call);
            }
        }
        Self {
            holds: holds.collect(),
            waits,
        }
    }

    /// Whether the call can have closed a cycle. If it can at any moment, then also at one at which a hold or a wait in the
    /// cycle begins.
    fn closes(&self, call: &Call) -> bool {
        let span = Span::of(call);
        let holds = self.holds.values().flatten().map(|hold| hold.span.from);
        let waits = self.waits.values().flatten().map(|wait| wait.sent);
        let begins = holds.chain(waits).chain([span.from]);
        let moments: BTreeSet<_> = begins.filter(|begin| span.covers(*begin, *begin)).collect();
        let mut moments = moments.into_iter();
        moments.any(|moment| self.closes_at(call, moment))
    }

    /// Whether a way leads from the lock to the caller at this moment.
    fn closes_at(&self, call: &Call, moment: Moment) -> bool {
        let holders = |key: &str| {
            let holds = self.holds.get(key).into_iter().flatten();
            let holds = holds.filter(|hold| hold.span.covers(moment, moment));
            holds.map(|hold| hold.owner)
        };
        let others = holders(&call.key).filter(|owner| *owner != call.owner);
        let mut owners: Vec<_> = others.collect();
        let mut passed = BTreeSet::new();
        while let Some(owner) = owners.pop() {
            if !passed.insert(owner) {
                continue;
            }
            let waits = self.waits.get(owner).into_iter().flatten();
            for wait in waits.filter(|wait| Span::of(wait).covers(moment, moment)) {
                for holder in holders(&wait.key) {
                    if holder == call.owner {
                        return true;
                    }
                    owners.push(holder);
                }
            }
        }
        false
    }
}

/// When owners can have held a lock: from the first call that can have begun it until it was certainly
/// over, if it ever was. Leases that ran out are not looked at.
fn holds<'a>(story: &Story<'a>) -> Vec<Hold<'a>> {
    let mut holds = Vec::new();
    let mut add = |owner, from: Moment, known: Moment| {
        let lost = story.losses.iter().any(|loss| loss.to >= from);
        let ends = story.calls.iter().filter(|call| ends(call, owner, known));
        let end = ends.map(|call| call.ended).min().filter(|_| !lost);
        let to = end.unwrap_or(Moment::MAX);
        holds.push(Hold {
            owner,
            span: Span { from, to },
        });
    };
    for grant in Grants::of(story).all() {
        let from = grant.shown.iter().map(|call| call.sent).min();
        let known = grant.shown.iter().map(|call| call.ended).min();
        if let (Some(from), Some(known)) = (from, known) {
            add(grant.owner, from, known);
        }
    }
    for call in &story.calls {
        let silent = matches!(call.outcome, Outcome::Lost | Outcome::GivenBack);
        if silent && matches!(call.action, Action::Acquire(_)) {
            add(&call.owner, call.sent, call.ended);
        }
    }
    holds
}

/// Whether the owner, who held the lock at that moment or before, holds it no more after this call.
fn ends(call: &Call, owner: &str, known: Moment) -> bool {
    let over = match (&call.action, &call.outcome) {
        (Action::Remove, Outcome::Done) => true,
        (Action::Release { .. }, outcome) if call.owner == owner => matches!(
            outcome,
            Outcome::Left(0) | Outcome::Refused(Refusal::NotHeld | Refusal::NotOwner)
        ),
        _ => false,
    };
    over && call.sent >= known
}
