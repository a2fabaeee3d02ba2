//! Statistics over the last few minutes: the durations of holds and waits, and the hot keys.

use std::sync::Arc;

use redis_lock_core::{LockId, Monotonic, QueueWaits, Token};

use super::hot_keys::{HotKeys, KeyStats};
use super::recent_times::{RecentTimes, TimesSummary};
use super::{Counter, count};
use crate::server::{Context, GilCell};

/// By the wall clock.
static HOLDS: GilCell<RecentTimes> = GilCell::new(RecentTimes::new());
/// By the monotonic clock.
static WAITS: GilCell<RecentTimes> = GilCell::new(RecentTimes::new());
static HOT: GilCell<Option<HotKeys>> = GilCell::new(None);

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// The call was granted the lock.
    Granted,
    /// The wait timed out.
    TimeOut,
    /// The client disconnected, or the owner or an administrator ended the wait.
    GivenUp,
    /// The wait ended with an error.
    Refused,
}

/// Records the end of a grant. Its start is derived from its token, as in `LOCK.INFO`.
pub(crate) fn hold_ended(context: Context<'_>, now_ms: u64, token: Token) {
    let held_ms = now_ms.saturating_sub(token.number() / 1000);
    HOLDS.with(context, |times| times.record(now_ms, held_ms));
}

/// The durations of grants.
pub(crate) fn hold_times(context: Context<'_>, now_ms: u64) -> TimesSummary {
    HOLDS.with(context, |times| times.summary(now_ms))
}

/// Records the end of a wait.
pub(crate) fn wait_ended(
    context: Context<'_>,
    now: Monotonic,
    lock_id: &LockId,
    began: Monotonic,
    end: WaitEnd,
) {
    let waited_ms = u64::try_from(now.since(began).as_millis()).unwrap_or(u64::MAX);
    match end {
        WaitEnd::TimeOut => count(Counter::WaitTimeOuts),
        WaitEnd::GivenUp => count(Counter::WaitsGivenUp),
        WaitEnd::Granted | WaitEnd::Refused => {}
    }
    WAITS.with(context, |times| times.record(millis(now), waited_ms));
    let stats = KeyStats {
        waits: 1,
        timeouts: u64::from(end == WaitEnd::TimeOut),
        expirations: 0,
        total_wait_ms: waited_ms,
        max_wait_ms: waited_ms,
    };
    record(context, now, lock_id, &stats);
}

/// The durations of waits, however they ended.
pub(crate) fn wait_times(context: Context<'_>, now: Monotonic) -> TimesSummary {
    WAITS.with(context, |times| times.summary(millis(now)))
}

/// Records the end of a lease.
pub(crate) fn expired(context: Context<'_>, now: Monotonic, lock_id: &LockId) {
    let stats = KeyStats {
        expirations: 1,
        ..KeyStats::default()
    };
    record(context, now, lock_id, &stats);
}

/// The hottest keys of the caller's database, with the ongoing waits.
pub(crate) fn hottest(
    context: Context<'_>,
    now: Monotonic,
    ongoing: Vec<(Arc<[u8]>, QueueWaits)>,
) -> Vec<(Arc<[u8]>, KeyStats)> {
    let database = context.database();
    let ongoing = ongoing
        .into_iter()
        .map(|(key, waits)| (key, KeyStats::of_ongoing(&waits, now)));
    HOT.with(context, |hot| {
        let hot = hot.get_or_insert_with(HotKeys::new);
        hot.hottest(millis(now), database, ongoing)
    })
}

fn record(context: Context<'_>, now: Monotonic, lock_id: &LockId, stats: &KeyStats) {
    HOT.with(context, |hot| {
        let hot = hot.get_or_insert_with(HotKeys::new);
        hot.record(millis(now), lock_id, stats);
    });
}

const fn millis(now: Monotonic) -> u64 {
    now.0 / 1000
}
