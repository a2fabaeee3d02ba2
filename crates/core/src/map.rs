//! Maps with a quick hash, seeded anew in each process.
//!
//! The hash is not proof against somebody who knows its seed. These maps have an entry for each call
//! that waits, or each key that had somebody wait of late, and both are bounded: the worst that a
//! collision costs is bounded too.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hash};

use foldhash::fast::RandomState;

/// Values by key.
pub type Map<K, V> = HashMap<K, V, RandomState>;

/// Keys.
pub type Set<K> = HashSet<K, RandomState>;

/// Shrinks a map that is mostly empty: of itself a map keeps the capacity of its fullest moment.
pub fn shrink_if_sparse<K: Eq + Hash, V, S: BuildHasher>(map: &mut HashMap<K, V, S>) {
    if map.len() < map.capacity() / 8 {
        map.shrink_to(map.len() * 2);
    }
}
