//! `INFO lock` as a table.

use redis::Connection;
use std::collections::BTreeMap;
use testbed::{Expect, cmd, eventually};

/// The fields that count; all of them.
pub(crate) const COUNTERS: [&str; 17] = [
    "grants",
    "reentries",
    "renewals",
    "releases",
    "refusals",
    "hand_offs",
    "wait_timeouts",
    "waits_given_up",
    "expirations",
    "forced_removals",
    "max_waiters_rejections",
    "deadlocks",
    "session_renewals",
    "session_losses",
    "sessions_silent",
    "fence_checks",
    "fenced_refusals",
];

/// The fields that tell what is so now, and those of the last minutes.
pub(crate) const GAUGES: [&str; 16] = [
    "held",
    "holders",
    "waiting",
    "queued",
    "max_waiting",
    "longest_queue",
    "sessions",
    "sessions_detached",
    "session_grants",
    "last_token",
    "wait_ms_p50",
    "wait_ms_p99",
    "wait_ms_max",
    "hold_ms_p50",
    "hold_ms_p99",
    "hold_ms_max",
];

/// The fields of `INFO lock`, without their prefix.
#[track_caller]
pub(crate) fn section(c: &mut Connection) -> BTreeMap<String, i64> {
    let text = cmd!(*c, "INFO", "lock").text();
    text.lines()
        .filter_map(|line| line.strip_prefix("lock_")?.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.parse().expect("a number")))
        .collect()
}

/// One field of `INFO lock`.
#[track_caller]
pub(crate) fn field(c: &mut Connection, name: &str) -> i64 {
    section(c)[name]
}

/// Which counters have moved since then, and by how much.
fn moved(c: &mut Connection, before: &BTreeMap<String, i64>) -> BTreeMap<String, i64> {
    let now = section(c);
    COUNTERS
        .into_iter()
        .map(|name| (name.to_owned(), now[name] - before[name]))
        .filter(|(_, by)| *by != 0)
        .collect()
}

/// Demands that what `body` does moves these counters, by one for each time they are named, and no
/// other.
#[track_caller]
pub(crate) fn moves<T>(
    c: &mut Connection,
    counters: &[&str],
    what: &str,
    body: impl FnOnce(&mut Connection) -> T,
) -> T {
    let before = section(c);
    let result = body(c);
    let mut expected = BTreeMap::new();
    for name in counters {
        *expected.entry((*name).to_owned()).or_insert(0) += 1;
    }
    let what = format!("{what} to move {expected:?} and nothing else");
    eventually(|| moved(c, &before) == expected, &what);
    result
}
