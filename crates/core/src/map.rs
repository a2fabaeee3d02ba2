//! Maps with a fast hash, which has a new seed in each process.
//!
//! The hash does not withstand an attacker who knows the seed. Settings bound the number of entries of most maps:
//! waiting calls, the locks that they wait for, and recent statistics of keys. A map of the grants of sessions has at
//! most as many entries as there are grants.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;

/// A hash map with the fast hash.
pub type Map<K, V> = HashMap<K, V, RandomState>;

/// A hash set with the fast hash.
pub type Set<K> = HashSet<K, RandomState>;

/// Shrinks a map that is mostly empty; by itself a map keeps its largest capacity.
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
