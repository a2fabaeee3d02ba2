//! What callers that are gone have yet to give back, by lock.

use super::map::give_room_back;
use super::{GiveBack, Map, Place};

/// Asked by every command whether anything is owed of its lock, and so quick to say no.
#[derive(Debug, Default)]
pub struct GiveBacks(Map<Place, Vec<GiveBack>>);

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
    pub fn next(&self) -> Option<Place> {
        self.0.keys().next().cloned()
    }

    /// Takes what is owed of a lock, the oldest first.
    pub fn take(&mut self, place: &Place) -> Vec<GiveBack> {
        let owed = self.0.remove(place).unwrap_or_default();
        give_room_back(&mut self.0);
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
            let place = owed.place().clone();
            self.0.entry(place).or_default().push(owed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Deadline, Flights, Handed, Holds, Queues, Token};
    use super::*;
    use crate::{Monotonic, Owner, OwnerBuf, Waiter};

    fn place(database: i32, key: &[u8]) -> Place {
        Place {
            database,
            key: Arc::from(key),
        }
    }

    /// What a call that was handed this lock by this token owes.
    fn owed(place: &Place, token: u64) -> GiveBack {
        let waiter = Waiter {
            owner: OwnerBuf::from(Owner::new(b"a").expect("an owner")),
            lease: None,
            holds: None,
            client_id: 1,
            since: Monotonic(0),
            until: None,
        };
        let id = Queues::new().join(place.database, &place.key, waiter);
        let mut flights = Flights::new();
        let handed = Handed {
            place: place.clone(),
            client_id: 7,
            token: Token::new(token).expect("a token"),
            took_hold: true,
            holds: Holds::ONE,
            deadline: Deadline::Never,
        };
        flights.depart(id, handed, true);
        flights.lose(id).expect("on its way")
    }

    #[test]
    fn what_is_owed_is_taken_once_by_lock_in_order() {
        let (here, other_key, other_database) = (place(0, b"k"), place(0, b"j"), place(1, b"k"));
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
    fn the_room_of_many_is_given_back() {
        let mut owed_now = GiveBacks::new();
        let places: Vec<_> = (0..1000_u32).map(|n| place(0, &n.to_be_bytes())).collect();
        owed_now.extend(places.iter().map(|place| owed(place, 1)));
        for place in &places {
            assert_eq!(owed_now.take(place).len(), 1);
        }
        assert!(owed_now.0.capacity() < 100, "{}", owed_now.0.capacity());
    }
}
