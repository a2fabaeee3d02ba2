//! At no moment stand more grants than any of them allows.

use std::collections::BTreeSet;

use super::Evidence;
use crate::grants::Grant;
use crate::holds::Hold;
use crate::report::{Kind, Report};
use crate::text::Seconds;
use crate::{Action, Call, Moment, Outcome};

/// Two grants that stood at once, each an index, the one that was seen first in front: of more than two, the
/// first and the last.
type Clash = (usize, usize);

impl Evidence<'_, '_> {
    pub(super) fn exclusion(&self, report: &mut Report) {
        let clashes = self.clashes(&self.holds);
        for clash in &clashes {
            let text = self.tell(&self.holds, "certainly stood", *clash);
            let violation = self.violation(Kind::Exclusion, text);
            report.violations.push(violation);
        }
        let of_promises = self.clashes(&self.promised);
        let mut lost = BTreeSet::new();
        for clash in of_promises.difference(&clashes) {
            if lost.insert(clash.0) {
                let text = self.tell(&self.promised, "was to stand", *clash);
                report.losses.push(format!("{}: {text}", self.story.key));
            }
        }
        report.counts.lost_grants += lost.len();
    }

    fn tell(&self, holds: &[Hold], how: &str, (held, other): Clash) -> String {
        let holds = holds.iter().filter(|hold| hold.grant == held);
        let told =
            |hold: &Hold| format!("{} to {}", Seconds(hold.span.from), Seconds(hold.span.to));
        let spans: Vec<_> = holds.map(told).collect();
        let [held, other] = [held, other].map(|grant| name(&self.grants.all()[grant]));
        let spans = spans.join(", ");
        format!("{held} {how} from {spans}, while {other} did")
    }

    fn clashes(&self, holds: &[Hold]) -> BTreeSet<Clash> {
        let mut clashes = BTreeSet::new();
        let mut add = |(hold, other): Clash| {
            if !clashes.contains(&(other, hold)) {
                clashes.insert((hold, other));
            }
        };
        // When each began.
        for (index, other) in holds.iter().enumerate() {
            let standing = holds[..index].iter();
            let standing = standing.filter(|hold| hold.span.to > other.span.from);
            self.too_many(standing, other.grant).map(&mut add);
        }
        // And what stood at some moment of a call, together with all that stood all through it.
        for (index, grant) in self.grants.all().iter().enumerate() {
            for call in &grant.shown {
                let begun = holds.partition_point(|hold| hold.span.from <= call.sent);
                let standing = holds[..begun].iter();
                let standing = standing.filter(|hold| hold.span.covers(call.sent, call.ended));
                self.too_many(standing, index).map(&mut add);
            }
        }
        clashes
    }

    /// The grants that stand, and another one: a clash where they are more than one of them allows.
    fn too_many<'h>(
        &self,
        standing: impl Iterator<Item = &'h Hold>,
        other: usize,
    ) -> Option<Clash> {
        let limit = |grant: usize| self.grants.all()[grant].limit;
        let mut standing: Vec<_> = standing.map(|hold| hold.grant).collect();
        standing.retain(|grant| *grant != other);
        standing.dedup();
        let count = standing.len() + 1;
        let least = standing.iter().map(|grant| limit(*grant)).min()?;
        let allows = least.min(limit(other)).allows(count);
        (!allows).then_some((standing[0], other))
    }

    /// When a grant was seen to end: released, removed, or beyond its lease.
    pub(super) fn seen_to_end(&self, grant: &Grant<'_>) -> Moment {
        let Some(first) = grant.shown.iter().map(|call| call.ended).min() else {
            return Moment::MAX;
        };
        let ends = self.story.calls.iter().filter(|call| {
            let frees = match (&call.action, &call.outcome) {
                (Action::Remove, Outcome::Done) => true,
                (Action::Release { .. }, Outcome::Left(0)) => call.owner == grant.owner,
                _ => false,
            };
            frees && call.ended >= first
        });
        let taken = ends.map(|call| call.ended).min();
        let lapsed = grant.shown.iter().filter_map(|call| {
            let lease = call.granted()?.lease;
            Some(call.ended.saturating_add(lease.saturating_mul(1000)))
        });
        taken
            .unwrap_or(Moment::MAX)
            .min(lapsed.max().unwrap_or(Moment::MAX))
    }
}

/// A grant by the first call that showed it.
fn name(grant: &Grant<'_>) -> String {
    let first: Option<&&Call> = grant.shown.iter().min_by_key(|call| call.ended);
    first.map_or_else(|| grant.owner.to_owned(), ToString::to_string)
}
