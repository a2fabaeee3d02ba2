//! Pending grants: made to a waiting call, and not known to have reached it.
//!
//! The caller's connection may close between the grant and the reply. Then the call gives its hold
//! back, or the whole grant where no other call of the owner was answered or is about to be.

use super::map::shrink_if_sparse;
use super::queue::{LockId, WaiterId};
use super::{Change, Deadline, Held, Holds, Map, Token, UnixTime};

/// What one waiting call was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingGrant {
    /// The lock.
    pub lock_id: LockId,
    /// The connection that waited.
    pub client_id: u64,
    /// The grant.
    pub token: Token,
    /// The call added a hold; one with `HOLDS` may find as many as it wants.
    pub took_hold: bool,
    /// The hold count that it was granted.
    pub holds: Holds,
    /// When the lease ends that it was granted.
    pub deadline: Deadline,
}

/// A grant that one call alone knows of, by a reply that may not be sent yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnconfirmedGrant(PendingGrant);

/// Every pending grant, and who else knows of it.
#[derive(Debug, Default)]
pub struct PendingGrants {
    calls: Map<WaiterId, PendingGrant>,
    grants: Map<LockId, GrantState>,
}

#[derive(Debug)]
struct GrantState {
    token: Token,
    calls: usize,
    answered: bool,
}

/// What a call whose client is gone gives back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBack {
    pending: PendingGrant,
    /// Another call of the grant was answered, or is about to be.
    shared: bool,
    /// Only a grant that is still as it was made is given back: a change says that its owner
    /// knows of it.
    untouched: bool,
}

impl PendingGrants {
    /// No pending grant.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True when no grant is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// The connection of a call whose grant is pending.
    #[must_use]
    pub fn client(&self, id: WaiterId) -> Option<u64> {
        self.calls.get(&id).map(|pending| pending.client_id)
    }

    /// A waiting call was granted the lock; `begins` where the grant itself began with it.
    pub fn add(&mut self, id: WaiterId, pending: PendingGrant, begins: bool) {
        let state = self
            .grants
            .entry(pending.lock_id.clone())
            .or_insert_with(|| GrantState::new(pending.token, begins));
        if state.token != pending.token {
            *state = GrantState::new(pending.token, begins);
        }
        state.calls += 1;
        self.calls.insert(id, pending);
    }

    /// The call was answered. Returns its grant where nobody else knows of it.
    pub fn deliver(&mut self, id: WaiterId) -> Option<UnconfirmedGrant> {
        let pending = self.calls.remove(&id)?;
        let shared = self.finish(&pending, true);
        (!shared).then_some(UnconfirmedGrant(pending))
    }

    /// A call of the owner was answered directly: it knows of the grant whatever happens to
    /// its waiting calls.
    pub fn owner_answered(&mut self, lock_id: &LockId) {
        if let Some(state) = self.grants.get_mut(lock_id) {
            state.answered = true;
        }
    }

    /// The token of a grant was lifted: it is the same grant, and its calls are still calls of it.
    pub fn raise(&mut self, lock_id: &LockId, from: Token, to: Token) {
        let Some(state) = self.grants.get_mut(lock_id) else {
            return;
        };
        if state.token != from {
            return;
        }
        state.token = to;
        for pending in self.calls.values_mut() {
            if pending.token == from && pending.lock_id == *lock_id {
                pending.token = to;
            }
        }
    }

    /// The call's client is gone: what it gives back.
    pub fn abandon(&mut self, id: WaiterId) -> Option<GiveBack> {
        let pending = self.calls.remove(&id)?;
        let shared = self.finish(&pending, false);
        Some(GiveBack {
            pending,
            shared,
            untouched: false,
        })
    }

    /// One pending call less; true where another call knows of its grant, or is about to.
    fn finish(&mut self, pending: &PendingGrant, answered: bool) -> bool {
        shrink_if_sparse(&mut self.calls);
        let Some(state) = self.grants.get_mut(&pending.lock_id) else {
            return true;
        };
        if state.token != pending.token {
            return true;
        }
        state.calls -= 1;
        let shared = state.answered || state.calls > 0;
        state.answered |= answered;
        if state.calls == 0 {
            self.grants.remove(&pending.lock_id);
            shrink_if_sparse(&mut self.grants);
        }
        shared
    }
}

impl GrantState {
    fn new(token: Token, begins: bool) -> Self {
        Self {
            token,
            calls: 0,
            answered: !begins,
        }
    }
}

impl UnconfirmedGrant {
    /// True once the lease has ended that was granted.
    #[must_use]
    pub fn has_expired(&self, now: UnixTime) -> bool {
        self.0.deadline < Deadline::At(now.millis())
    }

    /// The reply was never sent: what is given back, the whole grant.
    #[must_use]
    pub fn into_give_back(self) -> GiveBack {
        GiveBack {
            pending: self.0,
            shared: false,
            untouched: true,
        }
    }
}

impl GiveBack {
    /// The lock that it is about.
    #[must_use]
    pub const fn lock_id(&self) -> &LockId {
        &self.pending.lock_id
    }

    /// What happens to the lock: nothing, where its grant is another by now.
    #[must_use]
    pub fn change(&self, lock: Option<&Held<'_>>, now: UnixTime) -> Change {
        let Some(held) = lock.filter(|held| held.grant.token == self.pending.token) else {
            return Change::Keep;
        };
        let as_handed = (self.pending.holds, self.pending.deadline);
        if self.untouched && (held.grant.holds, held.deadline) != as_handed {
            return Change::Keep;
        }
        if !self.shared {
            return Change::Free;
        }
        let fewer = Holds::new(held.grant.holds.number() - 1);
        match fewer {
            Some(holds) if self.pending.took_hold => {
                let grant = super::Grant {
                    holds,
                    ..held.grant
                };
                let deadline: Deadline = held.deadline.max(grant.lease.deadline_from(now));
                Change::Hold(grant, deadline)
            }
            _ => Change::Keep,
        }
    }
}

#[cfg(any(test, fuzzing))]
#[path = "pending_grants_checks.rs"]
mod checks;
#[cfg(test)]
#[path = "pending_grants_tests.rs"]
mod tests;
