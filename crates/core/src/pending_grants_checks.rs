//! Invariants of the pending grants, for tests and fuzzing.

use super::{GiveBack, LockGrants, PendingGrants};
use crate::{Holder, Holders, LockChange, Release, UnixTime, release};

impl PendingGrants {
    /// Panics unless the state of each grant fits its calls.
    pub(crate) fn check(&self) {
        for (lock_id, grants) in &self.grants {
            let LockGrants { latest, others } = grants;
            assert!(
                latest.calls > 0 || !others.is_empty(),
                "a lock without a pending call"
            );
            for (token, state) in others {
                assert_eq!(*token, state.token);
                assert!(state.calls > 0, "a grant without a pending call");
            }
            for state in others.values().chain([latest]) {
                let calls = self.calls.values();
                let calls = calls
                    .filter(|pending| pending.lock_id == *lock_id && pending.token == state.token)
                    .count();
                assert_eq!(state.calls, calls, "pending calls");
            }
        }
    }

    /// How many entries there are, of any kind.
    pub(crate) fn entries(&self) -> usize {
        let others = self.grants.values().map(|grants| grants.others.len());
        self.calls.len() + self.grants.len() + others.sum::<usize>()
    }
}

impl GiveBack {
    /// What changes in an exclusive lock.
    pub(crate) fn change<'a>(&self, lock: Option<&Holder<'a>>, now: UnixTime) -> LockChange<'a> {
        let holders = lock.map(|holder| Holders::Exclusive(*holder));
        let (Some((owner, amount)), Some(lock)) = (self.release(holders.as_ref()), lock) else {
            return LockChange::Keep;
        };
        assert_eq!(owner.as_owner(), lock.owner);
        let request = Release {
            owner: lock.owner,
            amount,
            token: None,
        };
        let released = release(holders.as_ref(), &request, now);
        released.expect("a holder").change
    }
}
