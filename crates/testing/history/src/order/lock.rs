//! What a lock does, command by command.

use super::candidate::{Candidate, Held, Lock, Reply, Token};
use super::times::Scene;
use crate::{Action, Call, Down, Refusal};

/// The lease of a new grant that names none.
pub(super) const DEFAULT_LEASE: u64 = 30_000;

impl<'a> Candidate<'a> {
    /// Makes of the candidate what the server would, and tells what it would reply. Not for a lock that
    /// is unknown.
    pub(super) fn run(&mut self, call: &'a Call, scene: Scene<'_>) -> Reply {
        if let Action::Fence(token) = call.action {
            return if self.fence(token) {
                Reply::Done
            } else {
                Reply::Refused(Refusal::Fenced)
            };
        }
        let held = match &mut self.state.lock {
            Lock::Held(held) => Some(held),
            _ => None,
        };
        match (&call.action, held) {
            (Action::Remove, _) => {
                self.free();
                Reply::Done
            }
            (Action::Look, Some(_)) => Reply::Grant,
            (Action::Look, None) => Reply::Nil,
            (Action::Fence(_), _) => Reply::Refused(Refusal::Fenced),
            (Action::Acquire { lease, .. }, None) => {
                if expects_holds(&call.action) {
                    return Reply::Refused(Refusal::NotHeld);
                }
                self.grant(&call.owner, lease.unwrap_or(DEFAULT_LEASE), scene)
            }
            (_, None) => Reply::Refused(Refusal::NotHeld),
            (action, Some(held)) if held.owner != call.owner => match action {
                Action::Acquire { .. } if !expects_holds(action) => Reply::Nil,
                _ => Reply::Refused(Refusal::NotOwner),
            },
            (
                Action::Acquire {
                    lease,
                    holds,
                    token,
                    ..
                },
                Some(held),
            ) => {
                if holds.is_some_and(|wanted| held.holds + 1 < wanted) {
                    return Reply::Refused(Refusal::NotHeld);
                }
                if !held.matches(*token) {
                    return Reply::Refused(Refusal::Fenced);
                }
                if holds.is_none_or(|wanted| held.holds < wanted) {
                    held.holds += 1;
                }
                held.lease = held.lease.max(lease.unwrap_or(0));
                held.answered = true;
                self.times = self.times.lengthened(held.lease, scene);
                Reply::Grant
            }
            (Action::Release { token, .. }, Some(held)) if !held.matches(*token) => {
                Reply::Refused(Refusal::Fenced)
            }
            (Action::Release { down, .. }, Some(held)) => {
                let left = match down {
                    Down::One => held.holds - 1,
                    Down::All => 0,
                    Down::To(count) => held.holds.min(*count),
                };
                self.release(left, scene)
            }
            (
                Action::Renew {
                    lease,
                    token,
                    raise,
                },
                Some(held),
            ) => {
                let raised = raise.is_some() && held.matches(*raise);
                if !raised && !held.matches(*token) {
                    return Reply::Refused(Refusal::Fenced);
                }
                held.lease = lease.unwrap_or(held.lease);
                held.answered = true;
                self.times = self.times.lease(held.lease, scene);
                if let Some(raise) = raise {
                    self.learn(*raise);
                }
                Reply::Grant
            }
        }
    }

    /// Whether the current grant has this token.
    pub(super) fn fence(&self, token: u64) -> bool {
        matches!(&self.state.lock, Lock::Held(held) if held.matches(Some(token)))
    }

    fn grant(&mut self, owner: &'a str, lease: u64, scene: Scene<'_>) -> Reply {
        self.state.lock = Lock::Held(Held {
            owner,
            token: Token::Above(self.state.highest),
            holds: 1,
            lease,
            answered: true,
            debts: Vec::new(),
        });
        self.times = self.times.lease(lease, scene);
        Reply::Grant
    }

    fn release(&mut self, left: u32, scene: Scene<'_>) -> Reply {
        if let Lock::Held(held) = &mut self.state.lock {
            held.answered = true;
            if left == 0 {
                self.free();
            } else if left < held.holds {
                held.holds = left;
                self.times = self.times.lengthened(held.lease, scene);
            }
        }
        Reply::Left(left)
    }

    fn free(&mut self) {
        self.state.lock = Lock::Free;
        self.times = self.times.without_lease();
    }
}

/// Whether an acquire counts on holds that it has already.
pub(super) fn expects_holds(action: &Action) -> bool {
    matches!(
        action,
        Action::Acquire {
            holds: Some(2..),
            ..
        } | Action::Acquire { token: Some(_), .. }
    )
}
