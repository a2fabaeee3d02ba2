//! A map in parts, so that it never grows or shrinks all at once: that would hold up everybody for
//! milliseconds at a hundred thousand entries.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;

use crate::Map;
use crate::map::shrink_if_sparse;

/// How many parts.
const PARTS: usize = 64;

/// The capacity that an empty part may keep: the least that a map has.
const LEAST: usize = 3;

/// A map in parts.
#[derive(Debug)]
pub(crate) struct Shards<K, V> {
    /// None, or all.
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
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Map::default);
        }
        let part = self.part(&key);
        if self.parts[part].insert(key, value).is_none() {
            self.len += 1;
        }
    }

    pub(crate) fn get_or_insert_with(&mut self, key: K, new: impl FnOnce() -> V) -> &mut V {
        if self.parts.is_empty() {
            self.parts.resize_with(PARTS, Map::default);
        }
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
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.parts.iter().map(Map::capacity).sum()
    }

    fn part<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        usize::try_from(self.hasher.hash_one(key) % PARTS as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{LEAST, Shards};

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
        assert!(
            map.parts.iter().all(|part| part.len() < 50),
            "they are even"
        );
        *map.get_mut(&7).unwrap() = 0;
        assert_eq!((map.get(&7), map.get(&8)), (Some(&0), Some(&9)));
        for number in 0..1000 {
            assert!(map.remove(&number).is_some());
        }
        assert_eq!((map.len(), map.remove(&7)), (0, None));
        assert!(map.parts.iter().all(|part| part.capacity() <= LEAST));
    }
}
