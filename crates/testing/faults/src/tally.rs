//! How often each thing has happened.

use std::collections::BTreeMap;
use std::fmt;

/// How often each thing has happened, by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Counts something.
    pub fn add(&mut self, what: &str, times: u64) {
        if times == 0 {
            return;
        }
        match self.0.get_mut(what) {
            Some(count) => *count += times,
            None => drop(self.0.insert(what.to_owned(), times)),
        }
    }

    /// Counts something that is counted in memory.
    pub(crate) fn add_count(&mut self, what: &str, times: usize) {
        self.add(what, u64::try_from(times).unwrap_or(u64::MAX));
    }

    /// Adds all of another one.
    pub fn merge(&mut self, other: &Self) {
        for (what, times) in &other.0 {
            self.add(what, *times);
        }
    }

    /// How often it has happened.
    #[must_use]
    pub fn get(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or_default()
    }

    /// Which of these have not happened.
    #[must_use]
    pub fn missing(&self, wanted: Vec<&'static str>) -> Vec<&'static str> {
        let mut missing = wanted;
        missing.retain(|what| self.get(what) == 0);
        missing
    }

    /// Without what has one of these names.
    pub(crate) fn without(&self, names: &[&str]) -> Self {
        let rest = self
            .0
            .iter()
            .filter(|(what, _)| !names.contains(&what.as_str()));
        Self(rest.map(|(what, times)| (what.clone(), *times)).collect())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (what, times)) in self.0.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{what} {times}")?;
        }
        Ok(())
    }
}
