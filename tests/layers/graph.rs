//! Cycles in who uses whom.

use std::collections::{BTreeMap, BTreeSet};

/// A cycle, if there is one, as the names on it.
pub(crate) fn cycle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut left = uses.clone();
    // A name that uses none of those left is on no cycle.
    loop {
        let free: Vec<_> = left
            .iter()
            .filter(|(_, used)| used.iter().all(|name| !left.contains_key(name)))
            .map(|(name, _)| name.clone())
            .collect();
        if free.is_empty() {
            break;
        }
        for name in free {
            left.remove(&name);
        }
    }
    let mut path = vec![left.keys().next()?.clone()];
    loop {
        let next_ones = &left[path.last()?];
        let next = next_ones.iter().find(|name| left.contains_key(*name))?;
        if let Some(begin) = path.iter().position(|name| name == next) {
            path.push(next.clone());
            return Some(path.split_off(begin));
        }
        path.push(next.clone());
    }
}

#[test]
fn a_cycle_is_found_and_named() {
    let uses = |pairs: &[(&str, &[&str])]| {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        pairs
            .iter()
            .map(|(name, used)| ((*name).to_owned(), set(used)))
            .collect()
    };
    let tree = uses(&[("a", &["b", "c"]), ("b", &["c"]), ("c", &[])]);
    assert_eq!(cycle(&tree), None);
    let ring = uses(&[("a", &["b"]), ("b", &["c"]), ("c", &["b", "d"]), ("d", &[])]);
    assert_eq!(cycle(&ring), Some(["b", "c", "b"].map(String::from).into()));
}
