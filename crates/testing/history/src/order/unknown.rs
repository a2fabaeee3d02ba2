//! What replies tell of a lock of which nothing is known: it was lost, or an earlier state of it
//! came back.

use super::candidate::{Candidate, Held, Lock, Token};
use super::lock::{DEFAULT_LEASE, expects_holds};
use super::times::Scene;
use crate::{Action, Call, Outcome, Refusal};

impl<'a> Candidate<'a> {
    /// What is known after a call; nothing where no lock can have replied so.
    pub(super) fn found_out(
        &self,
        call: &'a Call,
        waits_besides: bool,
        scene: Scene<'_>,
    ) -> Vec<Self> {
        let free = || {
            let mut free = self.clone();
            free.state.lock = Lock::Free;
            free.times = free.times.without_lease();
            free
        };
        match (&call.action, &call.outcome) {
            // Nothing is known before and after.
            (_, Outcome::Lost | Outcome::GivenBack) => Vec::new(),
            (Action::Remove, Outcome::Done) | (Action::Look, Outcome::Nil) => vec![free()],
            (Action::Release { .. }, Outcome::Left(0)) if !waits_besides => vec![free()],
            (Action::Release { .. } | Action::Renew { .. }, Outcome::Refused(Refusal::NotHeld)) => {
                vec![free()]
            }
            (Action::Acquire { .. }, Outcome::Grant { .. }) => self.acquired(call, scene),
            (
                Action::Renew {
                    lease,
                    token,
                    raise,
                },
                Outcome::Grant {
                    token: told,
                    lease: remembered,
                    ..
                },
            ) => {
                let fits = raise.or(*token).is_none_or(|token| token == *told)
                    && lease.is_none_or(|lease| lease == *remembered);
                let mut held = self.held(&call.outcome);
                if let Some(held) = &mut held {
                    held.times = held.times.lease(*remembered, scene);
                }
                held.filter(|_| fits && is_own(call)).into_iter().collect()
            }
            (Action::Look, Outcome::Grant { .. }) => self.held(&call.outcome).into_iter().collect(),
            (Action::Acquire { .. }, Outcome::Nil) if expects_holds(&call.action) => Vec::new(),
            _ => vec![self.clone()],
        }
    }

    /// A new grant, or the re-entry of one that outlived the loss.
    fn acquired(&self, call: &'a Call, scene: Scene<'_>) -> Vec<Self> {
        let (
            Action::Acquire {
                lease: asked,
                holds: wanted,
                token: bound,
                ..
            },
            Outcome::Grant {
                token,
                holds,
                lease,
                ..
            },
        ) = (&call.action, &call.outcome)
        else {
            return Vec::new();
        };
        let Some(held) = self.held(&call.outcome).filter(|_| is_own(call)) else {
            return Vec::new();
        };
        let mut candidates = Vec::new();
        let new = !expects_holds(&call.action)
            && *holds == 1
            && *token > self.state.highest
            && *lease == asked.unwrap_or(DEFAULT_LEASE);
        if new {
            let mut new = held.clone();
            new.times = new.times.lease(*lease, scene);
            candidates.push(new);
        }
        let again = *holds >= wanted.unwrap_or(2)
            && bound.is_none_or(|bound| bound == *token)
            && asked.is_none_or(|asked| asked <= *lease);
        if again {
            let mut again = held;
            let now = again.times.lease(*lease, scene);
            again.times.earliest_end = now.earliest_end;
            candidates.push(again);
        }
        candidates
    }

    /// The lock is held as was told, until nobody knows when.
    fn held(&self, told: &'a Outcome) -> Option<Self> {
        let Outcome::Grant {
            token,
            owner,
            holds,
            lease,
        } = told
        else {
            return None;
        };
        let mut held = self.clone();
        held.state.lock = Lock::Held(Held {
            owner,
            token: Token::Is(*token),
            holds: *holds,
            lease: *lease,
            answered: true,
            debts: Vec::new(),
        });
        held.state.highest = held.state.highest.max(*token);
        held.times = held.times.any_lease();
        Some(held)
    }
}

fn is_own(call: &Call) -> bool {
    matches!(&call.outcome, Outcome::Grant { owner, .. } if *owner == call.owner)
}
