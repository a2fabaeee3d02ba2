//! What callers that are gone have yet to give back, by lock.

use super::map::shrink_if_sparse;
use super::{GiveBack, LockId, Map};

/// Asked by every command whether anything is owed of its lock, and so quick to say no.
#[derive(Debug, Default)]
pub struct GiveBacks(Map<LockId, Vec<GiveBack>>);

impl GiveBacks {
    /// Nothing is owed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True when nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A lock of which something is owed.
    #[must_use]
    pub fn next(&self) -> Option<LockId> {
        self.0.keys().next().cloned()
    }

    /// Takes what is owed of a lock, the oldest first.
    pub fn take(&mut self, lock_id: &LockId) -> Vec<GiveBack> {
        let owed = self.0.remove(lock_id).unwrap_or_default();
        shrink_if_sparse(&mut self.0);
        owed
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.0 = Map::default();
    }
}

impl Extend<GiveBack> for GiveBacks {
    fn extend<T: IntoIterator<Item = GiveBack>>(&mut self, more: T) {
        for owed in more {
            let lock_id = owed.lock_id().clone();
            self.0.entry(lock_id).or_default().push(owed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Deadline, Holds, PendingGrant, PendingGrants, Queues, Token};
    use super::*;
    use crate::{Monotonic, Owner, OwnerBuf, Waiter};

    /// What a call that was granted this lock by this token owes.
    fn owed(lock_id: &LockId, token: u64) -> GiveBack {
        let waiter = Waiter {
            owner: OwnerBuf::from(Owner::new(b"a").expect("an owner")),
            lease: None,
            holds: None,
            client_id: 1,
            since: Monotonic(0),
            until: None,
        };
        let id = Queues::new().join(lock_id.database, &lock_id.key, waiter);
        let mut pending_grants = PendingGrants::new();
        let pending = PendingGrant {
            lock_id: lock_id.clone(),
            client_id: 7,
            token: Token::new(token).expect("a token"),
            took_hold: true,
            holds: Holds::ONE,
            deadline: Deadline::Never,
        };
        pending_grants.add(id, pending, true);
        pending_grants.abandon(id).expect("a pending grant")
    }

    #[test]
    fn what_is_owed_is_taken_once_by_lock_in_order() {
        let (here, other_key, other_database) = (
            LockId::new(0, b"k"),
            LockId::new(0, b"j"),
            LockId::new(1, b"k"),
        );
        let mut owed_now = GiveBacks::new();
        assert!(owed_now.is_empty());
        let [first, second] = [1, 2].map(|token| owed(&here, token));
        owed_now.extend([first.clone(), owed(&other_key, 3), second.clone()]);
        assert_eq!(owed_now.take(&other_database), []);
        assert_eq!(owed_now.take(&here), [first, second]);
        assert_eq!(owed_now.take(&here), []);
        assert_eq!(owed_now.next(), Some(other_key.clone()));
        owed_now.take(&other_key);
        assert_eq!(owed_now.next(), None);
        assert!(owed_now.is_empty());
    }

    #[test]
    fn what_held_many_shrinks() {
        let mut owed_now = GiveBacks::new();
        let lock_ids: Vec<_> = (0..1000_u32)
            .map(|n| LockId::new(0, &n.to_be_bytes()))
            .collect();
        owed_now.extend(lock_ids.iter().map(|lock_id| owed(lock_id, 1)));
        for lock_id in &lock_ids {
            assert_eq!(owed_now.take(lock_id).len(), 1);
        }
        assert!(owed_now.0.capacity() < 100, "{}", owed_now.0.capacity());
    }
}
