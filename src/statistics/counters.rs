//! Counters: one number each, cheap enough for every command.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// New grants, to whoever asked or waited.
    Grants,
    /// Acquires by the owner that holds the lock.
    Reentries,
    /// Renewals.
    Renewals,
    /// Releases that gave holds back.
    Releases,
    /// Acquires, releases and renewals that were refused for the state of the lock.
    Refusals,
    /// New grants to calls that had waited.
    HandOffs,
    /// Waits that ended because their time was over.
    WaitTimeOuts,
    /// Waits that the caller or an administrator ended.
    WaitsGivenUp,
    /// Held locks whose lease ended.
    Expirations,
    /// Held locks that were taken away otherwise, but for flushes.
    Removals,
    /// Calls that could not wait because too many did.
    MaxWaitersRejections,
    /// Checks of a token by `LOCK.FENCE`.
    FenceChecks,
    /// Those of them that failed.
    FencedRefusals,
}

const COUNTERS: usize = Counter::FencedRefusals as usize + 1;

/// Written by one thread at a time, whoever holds the server.
static NUMBERS: [AtomicU64; COUNTERS] = [const { AtomicU64::new(0) }; COUNTERS];

/// One more of these.
pub(crate) fn count(counter: Counter) {
    add(counter, 1);
}

/// The last one counted was not one of these after all.
pub(crate) fn uncount(counter: Counter) {
    add(counter, u64::MAX);
}

/// A plain load and store: there is one writer at a time, and an atomic addition costs a command
/// several times as much.
fn add(counter: Counter, more: u64) {
    let number = &NUMBERS[counter as usize];
    let now = number.load(Ordering::Relaxed).wrapping_add(more);
    number.store(now, Ordering::Relaxed);
}

/// How many there were since the server was started.
pub(crate) fn counted(counter: Counter) -> i64 {
    NUMBERS[counter as usize]
        .load(Ordering::Relaxed)
        .cast_signed()
}
