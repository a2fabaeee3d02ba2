//! When the leases end of the locks that somebody waits for.
//!
//! A lease's end is remembered as it was last seen; a renewal leaves it as it is, and whoever comes
//! when it is due looks again. What others do to a key's expiry is not told to a module, so a few
//! keys are looked at in every round, in turn.

use std::collections::{BTreeMap, BTreeSet};

use super::{Deadline, Map, Place};

/// The leases that are watched.
#[derive(Debug, Default)]
pub struct Watch {
    seen: Map<Place, Seen>,
    ends: BTreeSet<(u64, Place)>,
    turns: BTreeMap<u64, Place>,
    last_turn: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    end: Deadline,
    turn: u64,
}

impl Watch {
    /// Nothing is watched yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers when the lease of a lock ends, and watches it from now on.
    pub fn see(&mut self, place: &Place, end: Deadline) {
        let turn = match self.seen.get(place) {
            Some(before) if before.end == end => return,
            Some(before) => {
                let before = *before;
                self.forget_end(place, before.end);
                before.turn
            }
            None => self.new_turn(place),
        };
        self.seen.insert(place.clone(), Seen { end, turn });
        if let Deadline::At(end) = end {
            self.ends.insert((end, place.clone()));
        }
    }

    /// True while the lock is watched.
    #[must_use]
    pub fn watches(&self, place: &Place) -> bool {
        self.seen.contains_key(place)
    }

    /// The first lease that ends, by the wall clock in milliseconds.
    #[must_use]
    pub fn next_end(&self) -> Option<u64> {
        self.ends.first().map(|(end, _)| *end)
    }

    /// The locks whose lease has ended, as far as is known. Each is told once; it is to be seen
    /// anew or let go of.
    pub fn ended(&mut self, now_ms: u64) -> Vec<Place> {
        let first_later = (now_ms, Place::before_all());
        let later = self.ends.split_off(&first_later);
        let ended = std::mem::replace(&mut self.ends, later);
        let places: Vec<_> = ended.into_iter().map(|(_, place)| place).collect();
        for place in &places {
            if let Some(seen) = self.seen.get_mut(place) {
                seen.end = Deadline::Never;
            }
        }
        places
    }

    /// How many locks are watched.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// True when nothing is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// The next lock whose turn it is to be looked at. It is to be seen anew or let go of.
    pub fn turn(&mut self) -> Option<Place> {
        let (_, place) = self.turns.pop_first()?;
        let turn = self.new_turn(&place);
        if let Some(seen) = self.seen.get_mut(&place) {
            seen.turn = turn;
        }
        Some(place)
    }

    /// Stops watching a lock that nobody waits for any more.
    pub fn let_go(&mut self, place: &Place) {
        if let Some(seen) = self.seen.remove(place) {
            self.turns.remove(&seen.turn);
            self.forget_end(place, seen.end);
        }
    }

    fn new_turn(&mut self, place: &Place) -> u64 {
        self.last_turn += 1;
        self.turns.insert(self.last_turn, place.clone());
        self.last_turn
    }

    fn forget_end(&mut self, place: &Place, end: Deadline) {
        if let Deadline::At(end) = end {
            self.ends.remove(&(end, place.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn place(number: u8) -> Place {
        Place {
            database: 0,
            key: Arc::from([number]),
        }
    }

    #[test]
    fn a_lease_that_ended_is_told_once() {
        let mut watch = Watch::new();
        watch.see(&place(1), Deadline::At(10));
        watch.see(&place(2), Deadline::At(20));
        watch.see(&place(3), Deadline::Never);
        assert_eq!(watch.next_end(), Some(10));
        assert_eq!(
            watch.ended(10),
            [],
            "a key expires behind its moment, not at it"
        );
        assert_eq!(watch.ended(11), [place(1)]);
        assert_eq!(watch.ended(11), []);
        assert_eq!(watch.next_end(), Some(20));
    }

    #[test]
    fn a_lease_that_moved_has_one_end() {
        let mut watch = Watch::new();
        for end in [10, 30, 20] {
            watch.see(&place(1), Deadline::At(end));
        }
        assert_eq!(watch.ended(20), []);
        assert_eq!(watch.ended(100), [place(1)]);
        watch.see(&place(1), Deadline::At(200));
        assert_eq!(watch.next_end(), Some(200));
        watch.let_go(&place(1));
        assert_eq!(watch.next_end(), None);
        assert!(!watch.watches(&place(1)));
    }

    #[test]
    fn every_watched_lock_gets_its_turn() {
        let mut watch = Watch::new();
        for number in 1..=3 {
            watch.see(&place(number), Deadline::Never);
        }
        let turns = |watch: &mut Watch, count| -> Vec<Place> {
            (0..count).filter_map(|_| watch.turn()).collect()
        };
        assert_eq!(turns(&mut watch, 2), [place(1), place(2)]);
        watch.let_go(&place(1));
        assert_eq!(turns(&mut watch, 2), [place(3), place(2)]);
        watch.see(&place(1), Deadline::Never);
        assert_eq!(turns(&mut watch, 3), [place(3), place(2), place(1)]);
        assert_eq!(watch.len(), 3);
    }
}
