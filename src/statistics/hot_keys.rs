//! The keys with the most waiting over the last few minutes, in bounded memory.
//!
//! Each minute has a table. In a full table a new key replaces the key with the lowest rank, and inherits its rank but
//! not its numbers (the space-saving algorithm). So a table always keeps a key with more than 1/[`KEYS`] of the
//! minute's waiting.

use std::sync::Arc;

use redis_lock_core::{LockId, Map, Monotonic, QueueWaits};

const SPAN_MS: u64 = 60_000;
/// Five minutes.
const SPANS: usize = 5;
/// How many keys one table holds.
const KEYS: usize = 128;
/// Keys with longer names are ignored, because names take most of the memory.
const MAX_NAME: usize = 1024;

/// The numbers of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyStats {
    /// The number of waits.
    pub(crate) waits: u64,
    /// The number of waits that timed out.
    pub(crate) timeouts: u64,
    /// The grants whose lease ended.
    pub(crate) expirations: u64,
    /// The total time of the waits.
    pub(crate) total_wait_ms: u64,
    /// The longest wait.
    pub(crate) max_wait_ms: u64,
}

impl KeyStats {
    /// Keys are ranked by milliseconds of waiting plus waits plus expirations.
    fn rank(&self) -> u64 {
        self.total_wait_ms
            .saturating_add(self.waits)
            .saturating_add(self.expirations)
    }

    /// The numbers of ongoing waits.
    pub(super) fn of_ongoing(waits: &QueueWaits, now: Monotonic) -> Self {
        let count = waits.count as u64;
        let micros = (u128::from(now.0) * u128::from(count)).saturating_sub(waits.since_sum);
        let longest = now.since(waits.first_since);
        Self {
            waits: count,
            total_wait_ms: u64::try_from(micros / 1000).unwrap_or(u64::MAX),
            max_wait_ms: u64::try_from(longest.as_millis()).unwrap_or(u64::MAX),
            ..Self::default()
        }
    }

    fn add(&mut self, more: &Self) {
        self.waits += more.waits;
        self.timeouts += more.timeouts;
        self.expirations += more.expirations;
        self.total_wait_ms = self.total_wait_ms.saturating_add(more.total_wait_ms);
        self.max_wait_ms = self.max_wait_ms.max(more.max_wait_ms);
    }
}

/// The keys of the last few minutes.
#[derive(Debug, Default)]
pub(crate) struct HotKeys {
    spans: [Span; SPANS],
    current: u64,
}

#[derive(Debug, Default)]
struct Span(Map<LockId, Entry>);

#[derive(Debug, Default)]
struct Entry {
    stats: KeyStats,
    /// The rank of the key that this one replaced.
    inherited: u64,
}

impl Entry {
    fn rank(&self) -> u64 {
        self.stats.rank().saturating_add(self.inherited)
    }
}

impl Span {
    fn add(&mut self, lock_id: &LockId, stats: &KeyStats) {
        if let Some(kept) = self.0.get_mut(lock_id) {
            kept.stats.add(stats);
            return;
        }
        let inherited = if self.0.len() < KEYS {
            0
        } else {
            self.remove_lowest()
        };
        let kept = Entry {
            stats: *stats,
            inherited,
        };
        self.0.insert(lock_id.clone(), kept);
    }

    /// Removes the key with the lowest rank. Returns that rank.
    fn remove_lowest(&mut self) -> u64 {
        let lowest = self.0.iter().min_by_key(|(_, kept)| kept.rank());
        let Some((lock_id, rank)) = lowest.map(|(lock_id, kept)| (lock_id.clone(), kept.rank()))
        else {
            return 0;
        };
        self.0.remove(&lock_id);
        rank
    }
}

impl HotKeys {
    /// An empty table.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Adds to the numbers of a key. `now_ms` must come from a monotonic clock.
    pub(crate) fn record(&mut self, now_ms: u64, lock_id: &LockId, stats: &KeyStats) {
        if lock_id.key.len() > MAX_NAME {
            return;
        }
        self.advance(now_ms);
        self.span(self.current).add(lock_id, stats);
    }

    /// The keys of a database, hottest first, with the ongoing waits added.
    pub(crate) fn hottest(
        &mut self,
        now_ms: u64,
        database: i32,
        ongoing: impl IntoIterator<Item = (Arc<[u8]>, KeyStats)>,
    ) -> Vec<(Arc<[u8]>, KeyStats)> {
        self.advance(now_ms);
        let mut keys: Map<Arc<[u8]>, KeyStats> = Map::default();
        let kept = self.spans.iter().flat_map(|span| &span.0);
        let kept = kept
            .filter(|(lock_id, _)| lock_id.database == database)
            .map(|(lock_id, kept)| (Arc::clone(&lock_id.key), kept.stats));
        for (key, stats) in kept.chain(ongoing) {
            keys.entry(key).or_default().add(&stats);
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
