//! Grants to waiting calls that are not answered yet.
//!
//! The caller's connection may close before the reply is written. Then the call gives back its hold,
//! or the whole grant when no other call of the grant was answered or is pending.

use super::LockId;
use super::map::shrink_if_sparse;
use super::queue::WaiterId;
use super::{Deadline, Holders, Holds, Map, OwnerBuf, ReleaseAmount, Token, UnixTime};

/// The grant to one waiting call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingGrant {
    /// The lock.
    pub lock_id: LockId,
    /// The connection that waits.
    pub client_id: u64,
    /// The token of the grant.
    pub token: Token,
    /// True when the call added a hold. A call with `HOLDS` adds none when there are enough.
    pub took_hold: bool,
    /// The hold count after the call.
    pub holds: Holds,
    /// The deadline after the call.
    pub deadline: Deadline,
}

/// A grant that was answered to one call only, by a reply that may not be sent yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnconfirmedGrant(PendingGrant);

/// Every pending grant, and whether another call of the grant was answered.
#[derive(Debug, Default)]
pub struct PendingGrants {
    calls: Map<WaiterId, PendingGrant>,
    grants: Map<LockId, LockGrants>,
}

/// The grants of one lock that have pending calls: of a shared lock there may be many.
#[derive(Debug)]
struct LockGrants {
    /// The grant that was added last; it may have no pending call left.
    latest: GrantState,
    /// The others, each with a pending call.
    others: Map<Token, GrantState>,
}

#[derive(Debug)]
struct GrantState {
    token: Token,
    calls: usize,
    answered: bool,
}

/// What a call gives back whose client has disconnected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GiveBack {
    pending: PendingGrant,
    /// Another call of the grant was answered or is pending.
    shared: bool,
    /// Give back only if the grant is unchanged: whoever changed it has it.
    only_unchanged: bool,
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

    /// The calls with a pending grant, each with its connection.
    pub fn clients(&self) -> impl Iterator<Item = (WaiterId, u64)> {
        let calls = self.calls.iter();
        calls.map(|(id, pending)| (*id, pending.client_id))
    }

    /// Adds the grant to a waiting call; `is_new` when it is no re-entry.
    pub fn add(&mut self, id: WaiterId, pending: PendingGrant, is_new: bool) {
        let grants = self
            .grants
            .entry(pending.lock_id.clone())
            .or_insert_with(|| LockGrants {
                latest: GrantState::new(pending.token, is_new),
                others: Map::default(),
            });
        if grants.of(pending.token).is_none() {
            let latest = GrantState::new(pending.token, is_new);
            let before = std::mem::replace(&mut grants.latest, latest);
            if before.calls > 0 {
                grants.others.insert(before.token, before);
            }
        }
        if let Some(state) = grants.of(pending.token) {
            state.calls += 1;
        }
        self.calls.insert(id, pending);
    }

    /// The reply was written. Returns the grant if no other call of it was answered or is pending.
    pub fn deliver(&mut self, id: WaiterId) -> Option<UnconfirmedGrant> {
        let pending = self.calls.remove(&id)?;
        let shared = self.finish(&pending, true);
        (!shared).then_some(UnconfirmedGrant(pending))
    }

    /// A call of this grant that did not wait was answered: the grant now outlives the pending calls.
    pub fn answered(&mut self, lock_id: &LockId, token: Token) {
        let grants = self.grants.get_mut(lock_id);
        if let Some(state) = grants.and_then(|grants| grants.of(token)) {
            state.answered = true;
        }
    }

    /// The token of a grant was raised: its pending calls stay calls of that grant.
    pub fn raise(&mut self, lock_id: &LockId, from: Token, to: Token) {
        let Some(grants) = self.grants.get_mut(lock_id) else {
            return;
        };
        // Who has the lock alone was granted it last.
        if grants.latest.token != from {
            return;
        }
        grants.latest.token = to;
        for pending in self.calls.values_mut() {
            if pending.token == from && pending.lock_id == *lock_id {
                pending.token = to;
            }
        }
    }

    /// The client has disconnected. Returns what the call gives back.
    pub fn abandon(&mut self, id: WaiterId) -> Option<GiveBack> {
        let pending = self.calls.remove(&id)?;
        let shared = self.finish(&pending, false);
        Some(GiveBack {
            pending,
            shared,
            only_unchanged: false,
        })
    }

    /// Removes a pending call; true when another call of its grant was answered or is pending.
    fn finish(&mut self, pending: &PendingGrant, answered: bool) -> bool {
        shrink_if_sparse(&mut self.calls);
        let Some(grants) = self.grants.get_mut(&pending.lock_id) else {
            return true;
        };
        let Some(state) = grants.of(pending.token) else {
            return true;
        };
        state.calls -= 1;
        let shared = state.answered || state.calls > 0;
        state.answered |= answered;
        if state.calls == 0 && grants.others.remove(&pending.token).is_some() {
            shrink_if_sparse(&mut grants.others);
        }
        if grants.latest.calls == 0 && grants.others.is_empty() {
            self.grants.remove(&pending.lock_id);
            shrink_if_sparse(&mut self.grants);
        }
        shared
    }
}

impl LockGrants {
    fn of(&mut self, token: Token) -> Option<&mut GrantState> {
        if self.latest.token == token {
            Some(&mut self.latest)
        } else {
            self.others.get_mut(&token)
        }
    }
}

impl GrantState {
    fn new(token: Token, is_new: bool) -> Self {
        Self {
            token,
            calls: 0,
            answered: !is_new,
        }
    }
}

impl UnconfirmedGrant {
    /// True when the granted lease has ended.
    #[must_use]
    pub fn has_expired(&self, now: UnixTime) -> bool {
        self.0.deadline < Deadline::At(now.millis())
    }

    /// The reply was never sent: gives back the whole grant.
    #[must_use]
    pub fn into_give_back(self) -> GiveBack {
        GiveBack {
            pending: self.0,
            shared: false,
            only_unchanged: true,
        }
    }
}

impl GiveBack {
    /// The lock.
    #[must_use]
    pub const fn lock_id(&self) -> &LockId {
        &self.pending.lock_id
    }

    /// The grant.
    #[must_use]
    pub const fn token(&self) -> Token {
        self.pending.token
    }

    /// The client that was not told of it.
    #[must_use]
    pub const fn client_id(&self) -> u64 {
        self.pending.client_id
    }

    /// What is released of a lock that may be shared, in whose name: nothing if the grant has ended. A
    /// narrower limit is not given back.
    #[must_use]
    pub fn release(&self, holders: Option<&Holders<'_>>) -> Option<(OwnerBuf, ReleaseAmount)> {
        let token = self.pending.token;
        let holder = match holders? {
            Holders::Exclusive(holder) => {
                Some(*holder).filter(|holder| holder.grant.token == token)
            }
            // With its own end: a `PEXPIRE` of the key does not change the grant.
            Holders::Shared(lock) => lock.set.with(token),
        };
        let holder = holder?;
        let holds = holder.grant.holds;
        let as_granted = (self.pending.holds, self.pending.deadline);
        let changed = self.only_unchanged && (holds, holder.end) != as_granted;
        let amount = match (self.shared, holds) {
            _ if changed => None,
            (false, _) => Some(ReleaseAmount::All),
            (true, Holds::ONE) => None,
            (true, _) => self.pending.took_hold.then_some(ReleaseAmount::One),
        };
        Some((OwnerBuf::from(holder.owner), amount?))
    }
}

#[cfg(any(test, fuzzing))]
#[path = "pending_grants_checks.rs"]
mod checks;
#[cfg(test)]
#[path = "pending_grants_tests.rs"]
mod tests;
#[cfg(test)]
#[path = "pending_grants_of_shares.rs"]
mod tests_of_shares;
