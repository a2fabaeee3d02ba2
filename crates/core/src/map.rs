//! Maps with a fast hash, seeded anew in each process.
//!
//! The hash does not withstand an attacker who knows the seed. The maps have an entry for each waiting
//! call, or for each key waited for recently. Both are bounded, and so is the cost of collisions.

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
