//! Tokens rise from grant to grant, and belong to one.

use std::collections::HashMap;

use super::Evidence;
use crate::grants::{shown, told};
use crate::report::{Kind, Violation};
use crate::story::granted;
use crate::{Action, Call};

impl Evidence<'_, '_> {
    pub(super) fn tokens(&self, found: &mut Vec<Violation>) {
        self.order(found);
        self.owners(found);
        self.repeated(found);
    }

    /// What is answered to a call that was sent after a token was known is not lower. Where a loss
    /// lies between, or where both grants can share the lock, that is so for new grants only: an older one
    /// may be back, or stand still.
    fn order(&self, found: &mut Vec<Violation>) {
        let mut by_end: Vec<_> = self.tokens_shown().collect();
        by_end.sort_by_key(|(call, _)| call.ended);
        for (later, lower) in self.tokens_shown() {
            let earlier = by_end
                .iter()
                .take_while(|(call, _)| call.ended < later.sent)
                .filter(|(_, token)| *token > lower)
                .find(|(call, token)| {
                    let together = !self.grants.exclude_each_other(*token, lower);
                    let stood_before = together && !self.grants.began_with(later);
                    !stood_before && !self.may_fall(call, later)
                });
            if let Some((earlier, _)) = earlier {
                let text = format!("{earlier}, and later {later}");
                found.push(self.violation(Kind::TokenOrder, text));
            }
        }
    }

    fn tokens_shown(&self) -> impl Iterator<Item = (&Call, u64)> {
        let calls = self.story.calls.iter();
        calls.flat_map(|call| shown(call).map(|token| (*call, token)))
    }

    fn may_fall(&self, earlier: &Call, later: &Call) -> bool {
        self.story.loss_between(earlier.sent, later.ended)
            && (!self.grants.began_with(later)
                || self.story.clock.falls_behind(earlier.ended, later.sent))
    }

    /// A token is one owner's.
    fn owners(&self, found: &mut Vec<Violation>) {
        let mut owners: HashMap<u64, (&str, &Call)> = HashMap::new();
        for call in &self.story.calls {
            for (token, owner) in told(call) {
                if owner != call.owner && call.action != Action::Look {
                    let text = format!("another owner's grant: {call}");
                    found.push(self.violation(Kind::TokenShared, text));
                }
                let (known, by) = owners.entry(token).or_insert((owner, call));
                if *known != owner {
                    let text = format!("one token of two owners: {by} and {call}");
                    found.push(self.violation(Kind::TokenShared, text));
                }
            }
        }
    }

    /// A token begins one grant.
    fn repeated(&self, found: &mut Vec<Violation>) {
        let mut began: HashMap<u64, &Call> = HashMap::new();
        for call in &self.story.calls {
            let Some(token) = granted(call).filter(|_| self.grants.began_with(call)) else {
                continue;
            };
            let shown_before = self.grants.index(token).and_then(|index| {
                let mut shown = self.grants.all()[index].shown.iter();
                shown.find(|other| told(other).any(|(t, _)| t == token) && other.ended < call.sent)
            });
            let other = shown_before.copied().or(began.get(&token).copied());
            if let Some(other) = other {
                let text = format!("two grants with one token: {other} and {call}");
                found.push(self.violation(Kind::TokenShared, text));
            }
            began.entry(token).or_insert(call);
        }
    }
}
