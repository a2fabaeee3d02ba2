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

    /// Whether the call can have closed a cycle.
    fn closes(&self, call: &Call) -> bool {
        self.leads_back(&call.owner, &call.key, Span::of(call), &mut BTreeSet::new())
    }

    /// Whether a way leads from this lock to the caller, at one moment of the span.
    fn leads_back<'s>(
        &'s self,
        caller: &str,
        key: &str,
        span: Span,
        passed: &mut BTreeSet<&'s str>,
    ) -> bool {
        let holds = self.holds.get(key).map_or(&[][..], Vec::as_slice);
        let holds = holds.iter().filter_map(|hold| {
            let span = common(span, hold.span)?;
            Some((hold.owner, span))
        });
        for (owner, span) in holds {
            if owner == caller && !passed.is_empty() {
                return true;
            }
            if owner == caller || !passed.insert(owner) {
                continue;
            }
            let waits = self.waits.get(owner).map_or(&[][..], Vec::as_slice);
            let found = waits.iter().any(|wait| {
                common(span, Span::of(wait))
                    .is_some_and(|span| self.leads_back(caller, &wait.key, span, passed))
            });
            if found {
                return true;
            }
            passed.remove(owner);
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
        if silent && matches!(call.action, Action::Acquire { .. }) {
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

/// The moments in both.
fn common(one: Span, other: Span) -> Option<Span> {
    let (from, to) = (one.from.max(other.from), one.to.min(other.to));
    (from <= to).then_some(Span { from, to })
}
