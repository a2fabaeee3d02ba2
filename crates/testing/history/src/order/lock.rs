//! The behaviour of a lock, command by command.

use super::candidate::{Candidate, Reply};
use super::lock_state::{Held, Token};
use super::times::Scene;
use crate::{Acquire, Action, Call, Down, Limit, Refusal, Renew};

/// The lease of a new grant that names none.
pub(super) const DEFAULT_LEASE: u64 = 30_000;

impl<'a> Candidate<'a> {
    /// Makes of the candidate what the server would, and tells what it would reply. Not for a call of
    /// somebody of whom nothing is known.
    pub(super) fn run(&mut self, call: &'a Call, scene: Scene<'_>) -> Reply {
        let place = self.place(&call.owner);
        match (&call.action, place) {
            (Action::Fence(token), _) if self.fences(*token, true) => Reply::Done,
            (Action::Fence(_), _) => Reply::Refused(Refusal::Fenced),
            (Action::Remove, _) => {
                self.free();
                Reply::Done
            }
            (Action::Look, _) if self.state.holders.is_empty() => Reply::Nil,
            (Action::Look, _) => Reply::Holders,
            (Action::Acquire(asks), None) => self.enter(&call.owner, asks, scene),
            (_, None) => Reply::Refused(self.not_a_holder()),
            (Action::Acquire(asks), Some(place)) => self.enter_again(place, asks, scene),
            (Action::Release { down, token }, Some(place)) => {
                let held = &self.state.holders[place];
                if !held.matches(*token) {
                    return Reply::Refused(Refusal::Fenced);
                }
                let left = match down {
                    Down::One => held.holds - 1,
                    Down::All => 0,
                    Down::To(count) => held.holds.min(*count),
                };
                self.release(place, left, scene)
            }
            (Action::Renew(asks), Some(place)) => self.renew(place, asks, scene),
        }
    }

    fn enter(&mut self, owner: &'a str, asks: &Acquire, scene: Scene<'_>) -> Reply {
        let limit = asks.limit.unwrap_or(Limit::ONE);
        if expects_holds(asks) {
            return Reply::Refused(self.not_a_holder());
        }
        if !self.state.has_room(limit) {
            return Reply::Nil;
        }
        let lease = asks.lease.unwrap_or(DEFAULT_LEASE);
        let held = Held {
            owner,
            token: Token::Above(self.state.highest),
            holds: 1,
            lease,
            limit,
            answered: true,
            debts: Vec::new(),
        };
        self.insert(held, self.times.lease(lease, scene));
        Reply::Grant
    }

    fn enter_again(&mut self, place: usize, asks: &Acquire, scene: Scene<'_>) -> Reply {
        let holds = asks.holds;
        let held = &self.state.holders[place];
        if holds.is_some_and(|wanted| held.holds + 1 < wanted) {
            return Reply::Refused(Refusal::NotHeld);
        }
        if !held.matches(asks.token) {
            return Reply::Refused(Refusal::Fenced);
        }
        if !self.narrow(place, asks.limit.unwrap_or(Limit::ONE)) {
            return Reply::Refused(Refusal::NotAlone);
        }
        let held = &mut self.state.holders[place];
        if holds.is_none_or(|wanted| held.holds < wanted) {
            held.holds += 1;
        }
        held.lease = held.lease.max(asks.lease.unwrap_or(0));
        held.answered = true;
        let lease = held.lease;
        self.times.lengthen(place, lease, scene);
        Reply::Grant
    }

    fn release(&mut self, place: usize, left: u32, scene: Scene<'_>) -> Reply {
        let held = &mut self.state.holders[place];
        held.answered = true;
        if left == 0 {
            self.remove(place);
        } else if left < held.holds {
            held.holds = left;
            let lease = held.lease;
            self.times.lengthen(place, lease, scene);
        }
        Reply::Left(left)
    }

    fn renew(&mut self, place: usize, asks: &Renew, scene: Scene<'_>) -> Reply {
        let (limit, raise) = (asks.limit, asks.raise);
        let held = &self.state.holders[place];
        let raised = raise.is_some() && held.matches(raise);
        if !raised && !held.matches(asks.token) {
            return Reply::Refused(Refusal::Fenced);
        }
        let wider = limit.filter(|limit| *limit > held.limit);
        if !limit.is_none_or(|limit| self.narrow(place, limit)) {
            return Reply::Refused(Refusal::NotAlone);
        }
        let held = &mut self.state.holders[place];
        held.limit = wider.unwrap_or(held.limit);
        held.lease = asks.lease.unwrap_or(held.lease);
        held.answered = true;
        let lease = held.lease;
        self.times.ends[place] = self.times.lease(lease, scene);
        if let Some(raise) = raise {
            self.learn(place, raise);
        }
        Reply::Grant
    }

    /// The holder's limit becomes the narrower of the two; false where the holders are more than that.
    fn narrow(&mut self, place: usize, limit: Limit) -> bool {
        let allows = limit.allows(self.state.holders.len());
        let held = &mut self.state.holders[place];
        if limit < held.limit && allows {
            held.limit = limit;
        }
        limit >= held.limit
    }

    /// The reply to a caller that holds nothing.
    fn not_a_holder(&self) -> Refusal {
        if self.state.holders.is_empty() {
            Refusal::NotHeld
        } else {
            Refusal::NotOwner
        }
    }
}

/// Whether an acquire counts on holds that it has already.
pub(super) fn expects_holds(asks: &Acquire) -> bool {
    asks.holds.is_some_and(|holds| holds > 1) || asks.token.is_some()
}
