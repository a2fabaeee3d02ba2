//! Invariants of the pending grants, for tests and fuzzing.

use super::PendingGrants;

impl PendingGrants {
    /// Panics unless the state of each grant fits its calls.
    pub(crate) fn check(&self) {
        for (lock_id, state) in &self.grants {
            let calls = self.calls.values();
            let calls = calls
                .filter(|pending| pending.lock_id == *lock_id && pending.token == state.token)
                .count();
            assert!(calls > 0, "a grant without a pending call");
            assert_eq!(state.calls, calls, "pending calls");
        }
    }

    /// How many entries there are, of any kind.
    pub(crate) fn entries(&self) -> usize {
        self.calls.len() + self.grants.len()
    }
}
