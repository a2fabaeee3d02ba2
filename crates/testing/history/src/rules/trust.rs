//! The times for which clients were promised a lock are kept.

use super::Evidence;
use crate::report::{Kind, Violation};
use crate::text::Seconds;
use crate::{Trust, Write};

impl Evidence<'_, '_> {
    /// No two clients trust their holds of one lock at once.
    pub(super) fn trust(&self, found: &mut Vec<Violation>) {
        let trusts = &self.story.trusts;
        for (index, earlier) in trusts.iter().enumerate() {
            let within = trusts[index + 1..]
                .iter()
                .take_while(|later| later.span.from < earlier.span.to)
                // A span that ends as it begins holds nothing.
                .filter(|later| later.span.from < later.span.to && later.token != earlier.token);
            for later in within {
                if !self.story.loss_between(earlier.span.from, later.span.to) {
                    let text = format!("{} and {}", name(earlier), name(later));
                    found.push(self.violation(Kind::Exclusion, text));
                }
            }
        }
    }

    /// Whether the writer could trust its hold all through the write.
    pub(super) fn trusted(&self, write: &Write) -> bool {
        let trusts = self.story.trusts.iter();
        let mut of_token = trusts.filter(|trust| trust.token == write.token);
        of_token.any(|trust| {
            trust.span.covers(write.sent, write.ended)
                && !self.story.loss_between(trust.span.from, write.ended)
        })
    }
}

fn name(trust: &Trust) -> String {
    let [from, to] = [trust.span.from, trust.span.to].map(Seconds);
    format!("token {} was trusted from {from} to {to}", trust.token)
}
