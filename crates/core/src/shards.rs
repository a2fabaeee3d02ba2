//! A map in parts, so that it never grows or shrinks all at once: that would hold up everybody for
//! milliseconds at a hundred thousand entries.
//!
//! The parts are as many as the entries need, and all of about the same size. When there are too many entries, one part
//! is split; when there are too few, the last one goes back into that it was split from (linear hashing). So no call
//! moves more than some hundred entries, and the parts do not all grow at the same time.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;

use crate::Map;
use crate::map::shrink_if_sparse;

/// How many entries a part has on average at most: a table of one size has hardly any room for more.
const FULL: usize = 400;

/// The capacity that an empty part may keep: the least that a map has.
const LEAST: usize = 3;

/// A map in parts.
#[derive(Debug)]
pub(crate) struct Shards<K, V> {
    /// One at least, once there was an entry.
    parts: Vec<Map<K, V>>,
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
        self.parts.iter().flatten()
    }

    pub(crate) fn get_key_value<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.parts.get(self.part(key))?.get_key_value(key)
    }

    pub(crate) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    pub(crate) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let part = self.part(key);
        self.parts.get_mut(part)?.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        self.make_room();
        let part = self.part(&key);
        if self.parts[part].insert(key, value).is_none() {
            self.len += 1;
        }
    }

    pub(crate) fn get_or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        self.make_room();
        let part = self.part(&key);
        match self.parts[part].entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                self.len += 1;
                entry.insert(new())
            }
        }
    }

    pub(crate) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let part = self.part(key);
        let value = self.parts.get_mut(part)?.remove(key)?;
        self.removed_from(part);
        Some(value)
    }

    /// Changes a value that is there, and removes it when that returns true.
    pub(crate) fn remove_if(&mut self, key: K, change: impl FnOnce(&mut V) -> bool) {
        let part = self.part(&key);
        if let Some(map) = self.parts.get_mut(part)
            && let Entry::Occupied(mut entry) = map.entry(key)
            && change(entry.get_mut())
        {
            entry.remove();
            self.removed_from(part);
        }
    }

    fn removed_from(&mut self, part: usize) {
        self.len -= 1;
        let part = &mut self.parts[part];
        if part.is_empty() && part.capacity() > LEAST {
            *part = Map::default();
        } else {
            shrink_if_sparse(part);
        }
        if self.len < self.parts.len() / 4 * FULL {
            self.join_last();
        }
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.parts.iter().map(Map::capacity).sum()
    }

    /// Splits a part when one more entry is too many.
    #[inline]
    fn make_room(&mut self) {
        if self.len >= self.parts.len() * FULL {
            self.split();
        }
    }

    #[cold]
    fn split(&mut self) {
        let last = self.parts.len();
        self.parts.push(Map::default());
        // The next part in the order of halves, from which the new one takes every key that is now the new one's.
        let from = last & (self.mask() >> 1);
        let mut whole = std::mem::take(&mut self.parts[from]);
        let moved: Vec<_> = whole.extract_if(|key, _| self.part(key) == last).collect();
        whole.shrink_to_fit();
        self.parts[from] = whole;
        self.parts[last].extend(moved);
    }

    /// Joins the last part with that from which it was split.
    #[cold]
    fn join_last(&mut self) {
        for (key, value) in self.parts.pop().into_iter().flatten() {
            let part = self.part(&key);
            self.parts[part].insert(key, value);
        }
    }

    /// The bits of a hash that tell the part, of which the highest may be one too many.
    const fn mask(&self) -> usize {
        self.parts.len().next_power_of_two() - 1
    }

    fn part<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        let mask = self.mask();
        let part = usize::try_from(self.hasher.hash_one(key) & mask as u64).unwrap_or_default();
        if part < self.parts.len() {
            part
        } else {
            part & (mask >> 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FULL, LEAST, Shards};

    #[test]
    fn it_is_a_map() {
        let mut map = Shards::default();
        assert_eq!(map.get(&1), None);
        assert_eq!(map.remove(&1), None);
        for number in 0..1000_u32 {
            map.insert(number, number);
            map.insert(number, number + 1);
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
            map.parts.iter().map(|part| part.capacity()).collect()
        };
        let mut map = Shards::default();
        let mut before = Vec::new();
        let numbers = 0..20_000_u32;
        let mut look = |map: &Shards<u32, u32>, number| {
            let after = capacities(map);
            let all = 0..before.len().max(after.len());
            let changed = all.filter(|&part| before.get(part) != after.get(part));
            assert!(changed.count() <= 3, "at {number}");
            let largest = map.parts.iter().map(|part| part.len()).max();
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
