//! The information in replies about a lock of which not all is known: it was lost, or an earlier state returned.
//! For calls of those who are not known to hold it.

use super::candidate::Candidate;
use super::lock::{DEFAULT_LEASE, expects_holds};
use super::lock_state::{Held, Token};
use super::times::{End, Scene};
use crate::{Action, Call, Limit, Outcome, Refusal};

impl<'a> Candidate<'a> {
    /// The knowledge after a call; none if no lock can have replied so.
    pub(super) fn found_out(
        &self,
        call: &'a Call,
        waits_besides: bool,
        scene: Scene<'_>,
    ) -> Vec<Self> {
        let free = || {
            let mut free = self.clone();
            free.free();
            free
        };
        // Known holders still hold it.
        let found_free = || {
            if self.state.holders.is_empty() {
                vec![free()]
            } else {
                Vec::new()
            }
        };
        match (&call.action, &call.outcome) {
            (Action::Remove, Outcome::Done | Outcome::Lost) => vec![free()],
            // Nothing is known of the caller before and after.
            (_, Outcome::Lost | Outcome::GivenBack) => Vec::new(),
            (Action::Look, Outcome::Nil)
            | (Action::Release { .. } | Action::Renew { .. }, Outcome::Refused(Refusal::NotHeld)) => {
                found_free()
            }
            (Action::Look, Outcome::Holders(holders)) => {
                self.clone().listed(holders).into_iter().collect()
            }
            (Action::Release { .. }, Outcome::Left(0)) if !waits_besides => self.left(),
            (Action::Acquire { .. }, Outcome::Grant { .. }) => self.acquired(call, scene),
            (
                Action::Renew {
                    limit,
                    lease,
                    token,
                    raise,
                },
                Outcome::Grant {
                    token: told,
                    lease: remembered,
                    limit: in_force,
                    ..
                },
            ) => {
                let fits = raise.or(*token).is_none_or(|token| token == *told)
                    && lease.is_none_or(|lease| lease == *remembered)
                    && limit == in_force
                    && is_own(call);
                match in_force {
                    _ if !fits => Vec::new(),
                    Some(limit) => {
                        let end = self.times.lease(*remembered, scene);
                        self.with(call, *limit, end).into_iter().collect()
                    }
                    // Its limit is not known: it stays one of the others.
                    None => {
                        let mut known = self.clone();
                        known.state.highest = known.state.highest.max(*told);
                        vec![known]
                    }
                }
            }
            _ if call.was_denied() && expects_holds(&call.action) => Vec::new(),
            (Action::Fence(token), Outcome::Refused(_)) if !self.fences(*token, false) => {
                Vec::new()
            }
            _ => vec![self.clone()],
        }
    }

    /// One of the others has gone, of whom more may be there: unless nobody bore any.
    fn left(&self) -> Vec<Self> {
        let mut known = self.clone();
        known.alone_or_not();
        if known.state.others {
            vec![known]
        } else {
            Vec::new()
        }
    }

    /// A new grant, or the re-entry of one that outlived the loss.
    fn acquired(&self, call: &'a Call, scene: Scene<'_>) -> Vec<Self> {
        let (
            Action::Acquire {
                limit,
                lease: asked,
                holds: wanted,
                token: bound,
                ..
            },
            Outcome::Grant {
                token,
                holds,
                lease,
                limit: told,
                ..
            },
        ) = (&call.action, &call.outcome)
        else {
            return Vec::new();
        };
        let limit = limit.unwrap_or(Limit::ONE);
        // No grant allows more holders than its call asked for.
        let in_force = told.unwrap_or(Limit::ONE);
        if !is_own(call) || in_force > limit {
            return Vec::new();
        }
        let end = self.times.lease(*lease, scene);
        let new = !expects_holds(&call.action)
            && *holds == 1
            && *token > self.state.highest
            && *lease == asked.unwrap_or(DEFAULT_LEASE)
            && in_force == limit;
        let again = *holds >= wanted.unwrap_or(2)
            && bound.is_none_or(|bound| bound == *token)
            && asked.is_none_or(|asked| asked <= *lease);
        let ends = [new.then_some(end), again.then_some(end.or_later())];
        let ends = ends.into_iter().flatten();
        ends.filter_map(|end| self.with(call, in_force, end))
            .collect()
    }

    /// The caller holds the lock as it was told, together with whoever is known to.
    fn with(&self, call: &'a Call, limit: Limit, end: End) -> Option<Self> {
        let Outcome::Grant {
            token,
            owner,
            holds,
            lease,
            ..
        } = &call.outcome
        else {
            return None;
        };
        if !self.state.has_room(limit) {
            return None;
        }
        let mut with = self.clone();
        let held = Held {
            owner,
            token: Token::Is(*token),
            holds: *holds,
            lease: *lease,
            limit,
            answered: true,
            debts: Vec::new(),
        };
        with.insert(held, end);
        with.state.highest = with.state.highest.max(*token);
        with.alone_or_not();
        Some(with)
    }
}

fn is_own(call: &Call) -> bool {
    matches!(&call.outcome, Outcome::Grant { owner, .. } if *owner == call.owner)
}
