//! The keys with the most waiting over the last few minutes, in memory that does not grow.
//!
//! Each minute has a table of its own. When one is full, the key with the least in it makes room,
//! and the newcomer takes over its rank, though not its numbers (the scheme known as space-saving):
//! a key with more than one part in [`KEYS`] of a minute's waiting is always kept, however many
//! other keys come and go.

use std::sync::Arc;

use super::{Map, Place};

const SPAN_MS: u64 = 60_000;
/// Five minutes.
const SPANS: usize = 5;
/// How many keys one table holds.
const KEYS: usize = 128;
/// A key with a longer name is not followed: the names are the most of what is kept.
const LONGEST_NAME: usize = 1024;

/// What has happened to a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heat {
    /// The waits for it.
    pub waits: u64,
    /// Those that ended because their time was over.
    pub time_outs: u64,
    /// The grants that ended because their lease was over.
    pub expirations: u64,
    /// How long the waits took in all.
    pub total_wait_ms: u64,
    /// How long the longest took.
    pub longest_wait_ms: u64,
}

impl Heat {
    /// What the keys are ranked by: each millisecond of waiting, each wait and each expiration.
    fn rank(&self) -> u64 {
        self.total_wait_ms
            .saturating_add(self.waits)
            .saturating_add(self.expirations)
    }

    fn add(&mut self, more: &Self) {
        self.waits += more.waits;
        self.time_outs += more.time_outs;
        self.expirations += more.expirations;
        self.total_wait_ms = self.total_wait_ms.saturating_add(more.total_wait_ms);
        self.longest_wait_ms = self.longest_wait_ms.max(more.longest_wait_ms);
    }
}

/// The keys of the last few minutes.
#[derive(Debug, Default)]
pub struct HotKeys {
    spans: [Span; SPANS],
    current: u64,
}

#[derive(Debug, Default)]
struct Span(Map<Place, Kept>);

#[derive(Debug, Default)]
struct Kept {
    heat: Heat,
    /// What was taken over from the key that made room.
    inherited: u64,
}

impl Kept {
    fn rank(&self) -> u64 {
        self.heat.rank().saturating_add(self.inherited)
    }
}

impl Span {
    fn add(&mut self, place: &Place, heat: &Heat) {
        if let Some(kept) = self.0.get_mut(place) {
            kept.heat.add(heat);
            return;
        }
        let inherited = if self.0.len() < KEYS {
            0
        } else {
            self.make_room()
        };
        let kept = Kept {
            heat: *heat,
            inherited,
        };
        self.0.insert(place.clone(), kept);
    }

    /// Lets the key with the lowest rank go; its rank.
    fn make_room(&mut self) -> u64 {
        let lowest = self.0.iter().min_by_key(|(_, kept)| kept.rank());
        let Some((place, rank)) = lowest.map(|(place, kept)| (place.clone(), kept.rank())) else {
            return 0;
        };
        self.0.remove(&place);
        rank
    }
}

impl HotKeys {
    /// No key yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Something happened to a key now, by a clock that nobody sets.
    pub fn add(&mut self, now_ms: u64, place: &Place, heat: &Heat) {
        if place.key.len() > LONGEST_NAME {
            return;
        }
        self.advance(now_ms);
        self.span(self.current).add(place, heat);
    }

    /// The keys of a database, the hottest first, with what goes on for them now.
    pub fn hottest(
        &mut self,
        now_ms: u64,
        database: i32,
        going_on: impl IntoIterator<Item = (Arc<[u8]>, Heat)>,
    ) -> Vec<(Arc<[u8]>, Heat)> {
        self.advance(now_ms);
        let mut keys: Map<Arc<[u8]>, Heat> = Map::default();
        let kept = self.spans.iter().flat_map(|span| &span.0);
        let kept = kept
            .filter(|(place, _)| place.database == database)
            .map(|(place, kept)| (Arc::clone(&place.key), kept.heat));
        for (key, heat) in kept.chain(going_on) {
            keys.entry(key).or_default().add(&heat);
        }
        let mut keys: Vec<_> = keys.into_iter().collect();
        keys.sort_unstable_by(|(one, cold), (other, hot)| {
            hot.rank().cmp(&cold.rank()).then_with(|| one.cmp(other))
        });
        keys
    }

    fn advance(&mut self, now_ms: u64) {
        let now = now_ms / SPAN_MS;
        for number in (self.current + 1..=now).rev().take(SPANS) {
            *self.span(number) = Span::default();
        }
        self.current = self.current.max(now);
    }

    fn span(&mut self, number: u64) -> &mut Span {
        #[allow(clippy::cast_possible_truncation)] // less than SPANS
        let index = (number % SPANS as u64) as usize;
        &mut self.spans[index]
    }
}

#[cfg(test)]
#[path = "hot_keys_tests.rs"]
mod tests;
