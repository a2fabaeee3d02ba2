//! The ends of leases of the locks that somebody waits for.
//!
//! An end is remembered as it was last seen. A renewal that puts it off does not update it: the caller looks
//! at the lock again when the remembered end is due. A module gets no event for a changed expiry, so in every
//! tick the caller also polls a few locks, in turn.

use std::collections::{BTreeMap, BTreeSet};

use super::{Deadline, LockId, Map};

/// The watched locks, by the end of their leases and in the order of polling.
#[derive(Debug, Default)]
pub struct LeaseWatch {
    watched: Map<LockId, Watched>,
    ends: BTreeSet<(u64, LockId)>,
    poll_order: BTreeMap<u64, LockId>,
    last_position: u64,
}

#[derive(Clone, Copy, Debug)]
struct Watched {
    end: Deadline,
    position: u64,
}

impl LeaseWatch {
    /// A watch without locks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts to watch a lock whose lease ends then, or updates the end.
    pub fn watch(&mut self, lock_id: &LockId, end: Deadline) {
        let position = match self.watched.get(lock_id) {
            Some(before) if before.end == end => return,
            Some(before) => {
                let before = *before;
                self.forget_end(lock_id, before.end);
                before.position
            }
            None => self.put_last(lock_id),
        };
        self.watched
            .insert(lock_id.clone(), Watched { end, position });
        if let Deadline::At(end) = end {
            self.ends.insert((end, lock_id.clone()));
        }
    }

    /// The lease of this lock ends then, at the latest; true when the lock is watched and its end was later.
    pub fn ends_by(&mut self, lock_id: &LockId, end: Deadline) -> bool {
        let watched = self.watched.get(lock_id);
        let is_sooner = watched.is_some_and(|watched| end < watched.end);
        if is_sooner {
            self.watch(lock_id, end);
        }
        is_sooner
    }

    /// True when the lock is watched.
    #[must_use]
    pub fn contains(&self, lock_id: &LockId) -> bool {
        self.watched.contains_key(lock_id)
    }

    /// The earliest end of a lease, by the wall clock in milliseconds.
    #[must_use]
    pub fn next_end(&self) -> Option<u64> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// Takes the locks whose remembered end has passed. The caller watches each anew or unwatches it.
    pub fn take_ended(&mut self, now_ms: u64) -> Vec<LockId> {
        let first_later = (now_ms, LockId::before_all());
        let later = self.ends.split_off(&first_later);
        let ended = std::mem::replace(&mut self.ends, later);
        let lock_ids: Vec<_> = ended.into_iter().map(|(_, lock_id)| lock_id).collect();
        for lock_id in &lock_ids {
            if let Some(watched) = self.watched.get_mut(lock_id) {
                watched.end = Deadline::Never;
            }
        }
        lock_ids
    }

    /// How many locks are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.watched.len()
    }

    /// True when nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.watched.is_empty()
    }

    /// The next lock to poll, which moves to the end of the order. The caller watches it anew or
    /// unwatches it.
    pub fn next_to_poll(&mut self) -> Option<LockId> {
        let (_, lock_id) = self.poll_order.pop_first()?;
        let position = self.put_last(&lock_id);
        if let Some(watched) = self.watched.get_mut(&lock_id) {
            watched.position = position;
        }
        Some(lock_id)
    }

    /// Stops watching a lock that nobody waits for any more.
    pub fn unwatch(&mut self, lock_id: &LockId) {
        if let Some(watched) = self.watched.remove(lock_id) {
            self.poll_order.remove(&watched.position);
            self.forget_end(lock_id, watched.end);
        }
    }

    fn put_last(&mut self, lock_id: &LockId) -> u64 {
        self.last_position += 1;
        self.poll_order.insert(self.last_position, lock_id.clone());
        self.last_position
    }

    fn forget_end(&mut self, lock_id: &LockId, end: Deadline) {
        if let Deadline::At(end) = end {
            self.ends.remove(&(end, lock_id.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock_id(number: u8) -> LockId {
        LockId::new(0, &[number])
    }

    #[test]
    fn an_ended_lease_is_taken_once() {
        let mut watch = LeaseWatch::new();
        watch.watch(&lock_id(1), Deadline::At(10));
        watch.watch(&lock_id(2), Deadline::At(20));
        watch.watch(&lock_id(3), Deadline::Never);
        assert!(!watch.is_empty());
        assert_eq!(watch.next_end(), Some(10));
        assert_eq!(
            watch.take_ended(10),
            [],
            "a key expires after its deadline, not at it"
        );
        assert_eq!(watch.take_ended(11), [lock_id(1)]);
        assert_eq!(watch.take_ended(11), []);
        assert_eq!(watch.next_end(), Some(20));
    }

    #[test]
    fn a_lease_whose_end_moved_has_one_end() {
        let mut watch = LeaseWatch::new();
        for end in [10, 30, 20] {
            watch.watch(&lock_id(1), Deadline::At(end));
        }
        assert_eq!(watch.take_ended(20), []);
        assert_eq!(watch.take_ended(100), [lock_id(1)]);
        watch.watch(&lock_id(1), Deadline::At(200));
        assert_eq!(watch.next_end(), Some(200));
        watch.unwatch(&lock_id(1));
        assert_eq!(watch.next_end(), None);
        assert!(!watch.contains(&lock_id(1)));
        assert!(watch.is_empty());
    }

    #[test]
    fn an_end_that_is_cut_comes_sooner_and_one_that_is_put_off_does_not_count() {
        let mut watch = LeaseWatch::new();
        let [one, none] = [1, 2].map(lock_id);
        assert!(!watch.ends_by(&none, Deadline::At(10)));
        watch.watch(&one, Deadline::Never);
        for (end, is_sooner, next) in [
            (30, true, 30),
            (20, true, 20),
            (20, false, 20),
            (40, false, 20),
        ] {
            assert_eq!(watch.ends_by(&one, Deadline::At(end)), is_sooner);
            assert_eq!(watch.next_end(), Some(next));
        }
        assert!(!watch.ends_by(&one, Deadline::Never));
        assert_eq!(watch.take_ended(21), [one]);
        assert_eq!(watch.len(), 1);
    }

    #[test]
    fn every_watched_lock_is_polled_in_turn() {
        let mut watch = LeaseWatch::new();
        for number in 1..=3 {
            watch.watch(&lock_id(number), Deadline::Never);
        }
        let poll = |watch: &mut LeaseWatch, count| -> Vec<LockId> {
            (0..count).filter_map(|_| watch.next_to_poll()).collect()
        };
        assert_eq!(poll(&mut watch, 2), [lock_id(1), lock_id(2)]);
        watch.unwatch(&lock_id(1));
        assert_eq!(poll(&mut watch, 2), [lock_id(3), lock_id(2)]);
        watch.watch(&lock_id(1), Deadline::Never);
        assert_eq!(poll(&mut watch, 3), [lock_id(3), lock_id(2), lock_id(1)]);
        assert_eq!(watch.len(), 3);
    }
}
