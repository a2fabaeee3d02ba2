//! A map in parts. One big table would stop the server for milliseconds when it grows.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash};

use foldhash::quality::RandomState;

use crate::Map;
use crate::map::shrink_if_sparse;

const PARTS: usize = 64;

#[derive(Debug)]
pub(super) struct Parts<K, V> {
    /// Empty until the first entry.
    maps: Vec<Map<K, V>>,
    hasher: RandomState,
    len: usize,
}

impl<K, V> Default for Parts<K, V> {
    fn default() -> Self {
        Self {
            maps: Vec::new(),
            hasher: RandomState::default(),
            len: 0,
        }
    }
}

impl<K: Eq + Hash, V> Parts<K, V> {
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.maps.iter().flatten()
    }

    pub(super) fn get_key_value<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<(&K, &V)>
    where
        K: Borrow<Q>,
    {
        self.maps.get(self.part(key))?.get_key_value(key)
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.get_key_value(key).map(|(_, value)| value)
    }

    pub(super) fn get_mut<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let part = self.part(key);
        self.maps.get_mut(part)?.get_mut(key)
    }

    pub(super) fn insert(&mut self, key: K, value: V) {
        if self.maps.is_empty() {
            self.maps.resize_with(PARTS, Map::default);
        }
        let part = self.part(&key);
        if self.maps[part].insert(key, value).is_none() {
            self.len += 1;
        }
    }

    pub(super) fn remove<Q: Eq + Hash + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let part = self.part(key);
        let part = self.maps.get_mut(part)?;
        let value = part.remove(key)?;
        shrink_if_sparse(part);
        self.len -= 1;
        Some(value)
    }

    fn part<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        usize::try_from(self.hasher.hash_one(key) % PARTS as u64).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::Parts;

    #[test]
    fn entries_spread_over_the_parts_and_leave_nothing_behind() {
        let mut map = Parts::default();
        assert_eq!(map.get(&1), None);
        assert_eq!(map.remove(&1), None);
        for number in 0..1000_u32 {
            map.insert(number, 0);
            map.insert(number, number);
        }
        assert_eq!((map.len(), map.iter().count()), (1000, 1000));
        assert!(map.maps.iter().all(|part| part.len() < 50));
        *map.get_mut(&7).unwrap() = 70;
        assert_eq!((map.get(&7), map.get(&8)), (Some(&70), Some(&8)));
        for number in 0..1000 {
            assert!(map.remove(&number).is_some());
        }
        assert_eq!(map.len(), 0);
        assert!(map.maps.iter().all(|part| part.capacity() < 8));
    }
}
