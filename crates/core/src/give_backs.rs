//! Give-backs that are still to be done, by lock.

use super::map::shrink_if_sparse;
use super::{GiveBack, LockId, Map};

/// The give-backs of each lock. Every command looks here for its lock, which is quick when there are none.
#[derive(Debug, Default)]
pub struct GiveBacks(Map<LockId, Vec<GiveBack>>);

impl GiveBacks {
    /// No give-backs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// True when there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// True when this lock has any.
    #[must_use]
    pub fn contains(&self, lock_id: &LockId) -> bool {
        self.0.contains_key(lock_id)
    }

    /// A lock with give-backs.
    #[must_use]
    pub fn next(&self) -> Option<LockId> {
        self.0.keys().next().cloned()
    }

    /// Takes the give-backs of a lock, oldest first.
    pub fn take(&mut self, lock_id: &LockId) -> Vec<GiveBack> {
        let give_backs = self.0.remove(lock_id).unwrap_or_default();
        shrink_if_sparse(&mut self.0);
        give_backs
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0 = Map::default();
    }
}

impl Extend<GiveBack> for GiveBacks {
    fn extend<T: IntoIterator<Item = GiveBack>>(&mut self, more: T) {
        for give_back in more {
            let lock_id = give_back.lock_id().clone();
            self.0.entry(lock_id).or_default().push(give_back);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Deadline, Holds, PendingGrant, PendingGrants, Queues, Token};
    use super::*;
    use crate::{Monotonic, Owner, OwnerBuf, Waiter};

    /// The give-back of a grant of this lock with this token.
    fn give_back(lock_id: &LockId, token: u64) -> GiveBack {
        let waiter = Waiter {
            owner: OwnerBuf::from(Owner::new(b"a").expect("an owner")),
            lease: None,
            holds: None,
            limit: crate::Limit::ONE,
            keep: None,
            names_limit: false,
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
    fn give_backs_are_taken_once_by_lock_and_in_order() {
        let (here, other_key, other_database) = (
            LockId::new(0, b"k"),
            LockId::new(0, b"j"),
            LockId::new(1, b"k"),
        );
        let mut give_backs = GiveBacks::new();
        assert!(give_backs.is_empty());
        let [first, second] = [1, 2].map(|token| give_back(&here, token));
        give_backs.extend([first.clone(), give_back(&other_key, 3), second.clone()]);
        assert!(!give_backs.is_empty());
        assert_eq!(give_backs.take(&other_database), []);
        assert_eq!(give_backs.take(&here), [first, second]);
        assert_eq!(give_backs.take(&here), []);
        assert_eq!(give_backs.next(), Some(other_key.clone()));
        give_backs.take(&other_key);
        assert_eq!(give_backs.next(), None);
        assert!(give_backs.is_empty());
        give_backs.extend([give_back(&here, 4)]);
        give_backs.clear();
        assert!(give_backs.is_empty());
    }

    #[test]
    fn the_map_shrinks_when_it_empties() {
        let mut give_backs = GiveBacks::new();
        let lock_ids: Vec<_> = (0..1000_u32)
            .map(|n| LockId::new(0, &n.to_be_bytes()))
            .collect();
        give_backs.extend(lock_ids.iter().map(|lock_id| give_back(lock_id, 1)));
        for lock_id in &lock_ids {
            assert_eq!(give_backs.take(lock_id).len(), 1);
        }
        assert!(give_backs.0.capacity() < 100, "{}", give_backs.0.capacity());
    }
}
