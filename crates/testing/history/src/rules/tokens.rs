//! Tokens rise from grant to grant, and belong to one.

use std::collections::HashMap;

use super::Evidence;
use crate::grants::shown;
use crate::report::{Kind, Violation};
use crate::story::granted;
use crate::{Action, Call, Outcome};

impl Evidence<'_, '_> {
    pub(super) fn tokens(&self, found: &mut Vec<Violation>) {
        self.order(found);
        self.owners(found);
        self.repeated(found);
    }

    /// What is answered to a call that was sent after a token was known is not lower. Where a loss
    /// lies between, that is so for new grants only: an older grant may be back.
    fn order(&self, found: &mut Vec<Violation>) {
        let mut by_end: Vec<_> = self.tokens_shown().collect();
        by_end.sort_by_key(|(call, _)| call.ended);
        for (later, lower) in self.tokens_shown() {
            let earlier = by_end
                .iter()
                .take_while(|(call, _)| call.ended < later.sent)
                .filter(|(_, token)| *token > lower)
                .find(|(call, _)| !self.may_fall(call, later));
            if let Some((earlier, _)) = earlier {
                let text = format!("{earlier}, and later {later}");
                found.push(self.violation(Kind::TokenOrder, text));
            }
        }
    }

    fn tokens_shown(&self) -> impl Iterator<Item = (&Call, u64)> {
        let calls = self.story.calls.iter();
        calls.filter_map(|call| Some((*call, shown(call)?)))
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
            let Outcome::Grant { token, owner, .. } = &call.outcome else {
                continue;
            };
            if *owner != call.owner && call.action != Action::Look {
                let text = format!("another owner's grant: {call}");
                found.push(self.violation(Kind::TokenShared, text));
            }
            let (known, by) = owners.entry(*token).or_insert((owner, call));
            if *known != owner {
                let text = format!("one token of two owners: {by} and {call}");
                found.push(self.violation(Kind::TokenShared, text));
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
                shown.find(|other| granted(other) == Some(token) && other.ended < call.sent)
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
