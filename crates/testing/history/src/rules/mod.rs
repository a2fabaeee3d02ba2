//! Rules over pairs of calls: cheap to check, and clear in what they say.

mod exclusion;
mod queue;
mod registers;
mod sessions;
mod tokens;
mod trust;

use crate::grants::Grants;
use crate::holds::{self, Hold};
use crate::report::{Counts, Kind, Report, Violation};
use crate::story::Story;
use crate::{Moment, Span};

/// All that the rules look at.
pub(crate) struct Evidence<'s, 'a> {
    story: &'s Story<'a>,
    grants: Grants<'a>,
    /// When grants certainly stood, as far as nothing was lost.
    holds: Vec<Hold>,
    /// When they would have certainly stood if nothing had been lost.
    promised: Vec<Hold>,
}

impl<'s, 'a> Evidence<'s, 'a> {
    pub(crate) fn of(story: &'s Story<'a>) -> Self {
        let grants = Grants::of(story);
        let always = Span::new(0, Moment::MAX);
        Self {
            holds: holds::certain(story, &grants, &story.quiet_times()),
            promised: holds::certain(story, &grants, &[always]),
            grants,
            story,
        }
    }

    /// Checks every rule, and counts what was checked.
    pub(crate) fn check(&self, report: &mut Report) {
        self.exclusion(report);
        let Report {
            violations: found,
            counts,
            ..
        } = report;
        self.trust(found);
        self.tokens(found);
        self.queue(found);
        self.registers(found, counts);
        self.sessions(found);
        self.count(counts);
    }

    fn count(&self, counts: &mut Counts) {
        counts.operations += self.story.calls.len();
        counts.grants += self.grants.all().len();
        let joins = self.joins();
        counts.promises += joins
            .map(|joins| self.promises(joins).count())
            .sum::<usize>();
        for (index, grant) in self.grants.all().iter().enumerate() {
            let Some(first) = grant.acquires().min_by_key(|call| call.ended) else {
                continue;
            };
            counts.re_entries += grant.acquires().count() - 1;
            let before = index.checked_sub(1).map(|index| &self.grants.all()[index]);
            let waited = before.is_some_and(|before| first.sent < self.seen_to_end(before));
            counts.hand_offs += usize::from(waited && blocks(first));
        }
    }

    fn violation(&self, kind: Kind, text: String) -> Violation {
        Violation {
            kind,
            key: self.story.key.to_owned(),
            text,
        }
    }
}

/// Whether an acquire waits where the lock is held.
pub(crate) fn blocks(call: &crate::Call) -> bool {
    matches!(
        call.action,
        crate::Action::Acquire(crate::Acquire { block: true, .. })
    )
}
