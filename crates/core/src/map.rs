//! Maps with a fast hash that is seeded once in each process.
//!
//! The hash does not resist an attacker who knows the seed. The number of entries is bounded, by settings for waiting
//! calls and their locks, by constants for the statistics, and by the number of grants for the grants of sessions.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;

/// A hash map with the fast hash.
pub type Map<K, V> = HashMap<K, V, RandomState>;

/// A hash set with the fast hash.
pub type Set<K> = HashSet<K, RandomState>;

/// Shrinks a map that is mostly empty, because a map never shrinks by itself.
pub fn shrink_if_sparse<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}

#[cfg(test)]
mod tests {
    use foldhash::fast::RandomState;

    use super::{Map, shrink_if_sparse};

    /// The capacity of a map with room for a thousand entries, before and after it shrinks to this many.
    fn capacities(entries: u32) -> (usize, usize) {
        let mut map = Map::with_capacity_and_hasher(1000, RandomState::default());
        let full = map.capacity();
        map.extend((0..entries).map(|n| (n, n)));
        shrink_if_sparse(&mut map);
        (full, map.capacity())
    }

    #[test]
    fn a_map_shrinks_when_less_than_an_eighth_is_used_and_keeps_as_much_again() {
        let (full, _) = capacities(0);
        let eighth = u32::try_from(full / 8).expect("a small number");
        assert_eq!(capacities(eighth).1, full);
        assert!(capacities(eighth - 1).1 < full / 2);
        let (_, left) = capacities(eighth - 30);
        assert!(left >= 2 * (full / 8 - 30), "{left}");
    }
}
