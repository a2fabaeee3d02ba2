//! A map in parts that never grows or shrinks all at once. With a hundred thousand entries that would block the server
//! for milliseconds.
//!
//! The map uses linear hashing: all parts have about the same size. When there are too many entries, one part is split.
//! When there are too few, the last part is merged into the part that it was split from. So no call moves more than
//! some hundred entries.

use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;
use hashbrown::hash_table::Entry;
use hashbrown::{Equivalent, HashTable};

/// The highest average number of entries in a part. A table with the same capacity has hardly any room for more.
const FULL: usize = 400;

/// The capacity that an empty part may keep, which is the smallest capacity of a table.
const LEAST: usize = 3;

type Part<K, V> = HashTable<(K, V)>;

/// A map in parts.
#[derive(Debug)]
pub(crate) struct Shards<K, V> {
    /// Not empty once there has been an entry.
    parts: Vec<Part<K, V>>,
    hasher: RandomState,
    len: usize,
}

impl<K, V> Default for Shards<K, V> {
    fn default() -> Self {
        Self {
            parts: Vec::new(),
            hasher: RandomState::default(),
            len: 0,
        }
    }
}

impl<K: Eq + Hash, V> Shards<K, V> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.parts.iter().flatten().map(|(key, value)| (key, value))
    }

    pub(crate) fn get_key_value<Q>(&self, key: &Q) -> Option<(&K, &V)>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let part = self.parts.get(self.part(hash))?;
        let (key, value) = part.find(hash, |(other, _)| key.equivalent(other))?;
        Some((key, value))
    }

    pub(crate) fn get<Q: Equivalent<K> + Hash + ?Sized>(&self, key: &Q) -> Option<&V> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut<Q: Equivalent<K> + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V> {
        let hash = self.hasher.hash_one(key);
        let part = self.part(hash);
        let part = self.parts.get_mut(part)?;
        let entry = part.find_mut(hash, |(other, _)| key.equivalent(other));
        entry.map(|(_, value)| value)
    }

    /// Adds an entry. The key must not be in the map yet.
    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.make_room();
        self.put((key, value));
        self.len += 1;
    }

    pub(crate) fn get_or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        self.make_room();
        let hash = self.hasher.hash_one(&key);
        let part = self.part(hash);
        let rehash = |(key, _): &(K, V)| self.hasher.hash_one(key);
        let entry = match self.parts[part].entry(hash, |(other, _)| key == *other, rehash) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => {
                self.len += 1;
                entry.insert((key, new()))
            }
        };
        let (_, value) = entry.into_mut();
        value
    }

    pub(crate) fn remove<Q: Equivalent<K> + Hash + ?Sized>(&mut self, key: &Q) -> Option<V> {
        self.remove_if(key, |_| true)
    }

    /// Changes the value of a key, if there is one. Removes the entry if `change` returns true.
    pub(crate) fn remove_if<Q>(&mut self, key: &Q, change: impl FnOnce(&mut V) -> bool) -> Option<V>
    where
        Q: Equivalent<K> + Hash + ?Sized,
    {
        let hash = self.hasher.hash_one(key);
        let part = self.part(hash);
        let entry = self.parts.get_mut(part)?;
        let entry = entry.find_entry(hash, |(other, _)| key.equivalent(other));
        let mut entry = entry.ok()?;
        let (_, value) = entry.get_mut();
        if !change(value) {
            return None;
        }
        let ((_, value), _) = entry.remove();
        self.removed_from(part);
        Some(value)
    }

    fn removed_from(&mut self, part: usize) {
        self.len -= 1;
        let part = &mut self.parts[part];
        if part.is_empty() && part.capacity() > LEAST {
            *part = Part::default();
        } else if part.len() < part.capacity() / 8 {
            let rehash = |(key, _): &(K, V)| self.hasher.hash_one(key);
            part.shrink_to(part.len() * 2, rehash);
        }
        if self.len < self.parts.len() / 4 * FULL {
            self.join_last();
        }
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.parts.iter().map(Part::capacity).sum()
    }

    /// Splits a part if one more entry would be too many.
    #[inline]
    fn make_room(&mut self) {
        if self.len >= self.parts.len() * FULL {
            self.split();
        }
    }

    #[cold]
    fn split(&mut self) {
        let last = self.parts.len();
        self.parts.push(Part::default());
        // Split the next part in order. Every key whose hash now selects the new part moves there.
        let from = last & (self.mask() >> 1);
        let mut whole = std::mem::take(&mut self.parts[from]);
        let is_moved = |(key, _): &mut (K, V)| self.part(self.hasher.hash_one(&*key)) == last;
        let moved: Vec<_> = whole.extract_if(is_moved).collect();
        whole.shrink_to_fit(|(key, _)| self.hasher.hash_one(key));
        self.parts[from] = whole;
        for entry in moved {
            self.put(entry);
        }
    }

    /// Merges the last part into the part that it was split from.
    #[cold]
    fn join_last(&mut self) {
        for entry in self.parts.pop().into_iter().flatten() {
            self.put(entry);
        }
    }

    fn put(&mut self, entry: (K, V)) {
        let rehash = |(key, _): &(K, V)| self.hasher.hash_one(key);
        let hash = rehash(&entry);
        let part = self.part(hash);
        self.parts[part].insert_unique(hash, entry, rehash);
    }

    /// A mask for the bits of a hash that select a part. With the highest bit a part may not exist yet.
    const fn mask(&self) -> usize {
        self.parts.len().next_power_of_two() - 1
    }

    /// The part of a key with this hash. Uses bits in the middle, because a table uses those at both ends.
    fn part(&self, hash: u64) -> usize {
        let mask = self.mask();
        let part = usize::try_from((hash >> 32) & mask as u64).unwrap_or_default();
        if part < self.parts.len() {
            part
        } else {
            part & (mask >> 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FULL, LEAST, Part, Shards};

    #[test]
    fn it_behaves_like_a_map() {
        let mut map = Shards::default();
        assert_eq!(map.get(&1), None);
        assert_eq!(map.remove(&1), None);
        for number in 0..1000_u32 {
            map.insert(number, number);
            *map.get_or_insert_with(number, || 0) += 1;
        }
        assert_eq!((map.len(), map.iter().count()), (1000, 1000));
        *map.get_mut(&7).unwrap() = 0;
        assert_eq!((map.get(&7), map.get(&8)), (Some(&0), Some(&9)));
        for number in 0..1000 {
            assert!(map.remove(&number).is_some());
        }
        assert_eq!((map.len(), map.remove(&7)), (0, None));
        assert!(map.parts.iter().all(|part| part.capacity() <= LEAST));
    }

    #[test]
    fn one_part_at_a_time_grows_and_shrinks() {
        let capacities = |map: &Shards<u32, u32>| -> Vec<usize> {
            map.parts.iter().map(Part::capacity).collect()
        };
        let mut map = Shards::default();
        let mut before = Vec::new();
        let numbers = 0..20_000_u32;
        let mut look = |map: &Shards<u32, u32>, number| {
            let after = capacities(map);
            let all = 0..before.len().max(after.len());
            let changed = all.filter(|&part| before.get(part) != after.get(part));
            assert!(changed.count() <= 3, "at {number}");
            let largest = map.parts.iter().map(Part::len).max();
            assert!(largest.unwrap() < 3 * FULL, "{largest:?} at {number}");
            before = after;
        };
        for number in numbers.clone() {
            map.insert(number, number);
            look(&map, number);
        }
        assert_eq!(map.parts.len(), 20_000 / FULL);
        assert!(
            numbers
                .clone()
                .all(|number| map.get(&number) == Some(&number))
        );
        for number in numbers {
            assert_eq!(map.remove(&number), Some(number));
            look(&map, number);
        }
        assert!(map.capacity() <= 4 * LEAST);
    }
}
