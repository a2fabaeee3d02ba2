//! The commands, each with its faults.

use history::{Action, Call, Down, Outcome, Refusal};

use super::super::fault::Fault;
use super::{Held, Server, grant};

impl Server {
    pub(super) fn acquire(&mut self, call: &Call, answered: bool) -> Outcome {
        let Action::Acquire {
            lease,
            holds,
            token,
            ..
        } = call.action
        else {
            return Outcome::Untouched;
        };
        let counts = token.is_some() || holds > Some(1);
        let another = self
            .saved
            .held
            .as_ref()
            .is_some_and(|held| held.owner != call.owner);
        let lets_in = another && !counts && self.is_at_times(Fault::TwoOwners);
        let Some(mut held) = self.saved.held.clone().filter(|_| !lets_in) else {
            if counts {
                return Outcome::Refused(Refusal::NotHeld);
            }
            if self.is_at_times(Fault::NilWhileFree) {
                return Outcome::Nil;
            }
            let lease = lease.unwrap_or(30_000);
            let held = Held {
                owner: call.owner.clone(),
                token: self.new_token(),
                holds: 1,
                lease,
                deadline: self.deadline(if self.is(Fault::ShortLease) {
                    lease / 2
                } else {
                    lease
                }),
                answered,
            };
            let outcome = grant(&held);
            self.saved.held = Some(held);
            return outcome;
        };
        if another {
            return if counts {
                Outcome::Refused(Refusal::NotOwner)
            } else {
                Outcome::Nil
            };
        }
        if holds.is_some_and(|wanted| held.holds + 1 < wanted) {
            return Outcome::Refused(Refusal::NotHeld);
        }
        if token.is_some_and(|token| token != held.token) {
            return Outcome::Refused(Refusal::Fenced);
        }
        if holds.is_none_or(|wanted| held.holds < wanted) || self.is_at_times(Fault::HoldsRepeated)
        {
            held.holds += 1 + u32::from(self.is_at_times(Fault::HoldsOffByOne));
        }
        if self.is_at_times(Fault::ReEntryNewToken) {
            held.token = self.new_token();
        }
        let asked = lease.unwrap_or(held.lease);
        held.lease = held.lease.max(asked);
        held.answered |= answered;
        held.deadline = if self.is(Fault::ReEntryShortens) {
            self.deadline(asked)
        } else {
            held.deadline.max(self.deadline(held.lease))
        };
        let outcome = grant(&held);
        self.saved.held = Some(held);
        outcome
    }

    pub(super) fn release(&mut self, call: &Call, down: Down, token: Option<u64>) -> Outcome {
        let forgets = self.is_at_times(Fault::NotHeldWhileHeld);
        let refusal = match &self.saved.held {
            None => Some(Refusal::NotHeld),
            Some(_) if forgets => Some(Refusal::NotHeld),
            Some(held) if held.owner != call.owner && !self.is(Fault::ReleaseByAnyone) => {
                Some(Refusal::NotOwner)
            }
            Some(held) if token.is_some_and(|token| token != held.token) => {
                (!self.is(Fault::TokenIgnored)).then_some(Refusal::Fenced)
            }
            Some(_) => None,
        };
        if let Some(refusal) = refusal {
            let waits = self
                .queue
                .iter()
                .filter(|waiter| waiter.call.owner == call.owner);
            let called_off: Vec<_> = waits.map(|waiter| waiter.id).collect();
            if down != Down::All || token.is_some() || called_off.is_empty() {
                return Outcome::Refused(refusal);
            }
            for id in called_off {
                self.leave(id);
                self.answers.push((id, Outcome::Nil));
            }
            return Outcome::Left(0);
        }
        let Some(held) = self.saved.held.as_mut() else {
            return Outcome::Untouched;
        };
        let left = match down {
            Down::One => held.holds - 1,
            Down::All if self.fault == Some(Fault::AllKeepsOne) => (held.holds - 1).min(1),
            Down::All => 0,
            Down::To(count) if self.fault == Some(Fault::DownTooFar) => count.min(held.holds - 1),
            Down::To(count) => count.min(held.holds),
        };
        held.answered = true;
        if left == 0 {
            self.saved.held = None;
        } else if left < held.holds {
            let lease = held.lease;
            held.holds = left;
            let deadline = self.deadline(lease);
            if let Some(held) = self.saved.held.as_mut() {
                held.deadline = held.deadline.max(deadline);
            }
        }
        Outcome::Left(left)
    }

    pub(super) fn renew(
        &mut self,
        call: &Call,
        lease: Option<u64>,
        token: Option<u64>,
        raise: Option<u64>,
    ) -> Outcome {
        if self.saved.held.is_none() && self.is(Fault::RenewTakes) {
            let token = self.new_token();
            self.saved.held = Some(Held {
                owner: call.owner.clone(),
                token,
                holds: 1,
                lease: 100,
                deadline: 0,
                answered: true,
            });
        }
        let Some(mut held) = self.saved.held.clone() else {
            return Outcome::Refused(Refusal::NotHeld);
        };
        if held.owner != call.owner {
            return Outcome::Refused(Refusal::NotOwner);
        }
        if raise != Some(held.token) && token.is_some_and(|token| token != held.token) {
            return Outcome::Refused(Refusal::Fenced);
        }
        if let Some(raise) = raise {
            let furthest = u64::try_from(self.wall()).unwrap_or(0) + 5_000_000;
            if raise > furthest && raise > self.saved.last_token && raise != held.token {
                return Outcome::Refused(Refusal::Ahead);
            }
            held.token = raise;
            self.saved.last_token = self.saved.last_token.max(raise);
        }
        held.lease = lease.unwrap_or(held.lease);
        held.answered = true;
        held.deadline = self.deadline(held.lease);
        let outcome = grant(&held);
        if self.is(Fault::RaiseForgotten) {
            held.token = self.saved.held.as_ref().map_or(0, |before| before.token);
        }
        if !self.is(Fault::RenewForgotten) {
            self.saved.held = Some(held);
        }
        outcome
    }

    pub(super) fn fence(&mut self, token: u64) -> bool {
        let current = self.saved.held.as_ref().map(|held| held.token);
        if current == Some(token) {
            return !self.is_at_times(Fault::FencesCurrent);
        }
        current.is_some() && self.is_at_times(Fault::FencePassesStale)
    }
}
