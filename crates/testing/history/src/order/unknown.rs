//! The information in replies about a lock of which not all is known: it was lost, or an earlier state returned.
//! For calls of those who are not known to hold it.

use super::candidate::Candidate;
use super::lock::{DEFAULT_LEASE, expects_holds};
use super::lock_state::{Held, Token};
use super::times::{End, Scene};
use crate::{Acquire, Action, Call, Granted, Limit, Outcome, Refusal};

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
            | (Action::Release { .. } | Action::Renew(_), Outcome::Refused(Refusal::NotHeld)) => {
                found_free()
            }
            (Action::Look, Outcome::Holders(holders)) => {
                self.clone().listed(holders).into_iter().collect()
            }
            (Action::Release { .. }, Outcome::Left(0)) if !waits_besides => self.left(),
            (_, Outcome::Grant(told)) if told.owner != call.owner => Vec::new(),
            (Action::Acquire(asks), Outcome::Grant(told)) => self.acquired(asks, told, scene),
            (Action::Renew(asks), Outcome::Grant(told)) => {
                let named = asks.raise.or(asks.token);
                let fits = named.is_none_or(|token| token == told.token)
                    && asks.lease.is_none_or(|lease| lease == told.lease)
                    && asks.limit == told.limit;
                match told.limit {
                    _ if !fits => Vec::new(),
                    Some(limit) => {
                        let end = self.times.lease(told.lease, scene);
                        self.with(told, limit, end).into_iter().collect()
                    }
                    // Its limit is not known: it stays one of the others.
                    None => {
                        let mut known = self.clone();
                        known.state.highest = known.state.highest.max(told.token);
                        vec![known]
                    }
                }
            }
            (Action::Acquire(asks), _) if call.was_denied() && expects_holds(asks) => Vec::new(),
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
    fn acquired(&self, asks: &Acquire, told: &'a Granted, scene: Scene<'_>) -> Vec<Self> {
        let limit = asks.limit.unwrap_or(Limit::ONE);
        // No grant allows more holders than its call asked for.
        let in_force = told.limit.unwrap_or(Limit::ONE);
        if in_force > limit {
            return Vec::new();
        }
        let end = self.times.lease(told.lease, scene);
        let new = !expects_holds(asks)
            && told.holds == 1
            && told.token > self.state.highest
            && told.lease == asks.lease.unwrap_or(DEFAULT_LEASE)
            && in_force == limit;
        let again = told.holds >= asks.holds.unwrap_or(2)
            && asks.token.is_none_or(|bound| bound == told.token)
            && asks.lease.is_none_or(|asked| asked <= told.lease);
        let ends = [new.then_some(end), again.then_some(end.or_later())];
        let ends = ends.into_iter().flatten();
        ends.filter_map(|end| self.with(told, in_force, end))
            .collect()
    }

    /// The caller holds the lock as it was told, together with whoever is known to.
    fn with(&self, told: &'a Granted, limit: Limit, end: End) -> Option<Self> {
        if !self.state.has_room(limit) {
            return None;
        }
        let mut with = self.clone();
        let held = Held {
            owner: &told.owner,
            token: Token::Is(told.token),
            holds: told.holds,
            lease: told.lease,
            limit,
            answered: true,
            debts: Vec::new(),
        };
        with.insert(held, end);
        with.state.highest = with.state.highest.max(told.token);
        with.alone_or_not();
        Some(with)
    }
}
