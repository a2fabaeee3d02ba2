//! Counters: one number each, cheap enough for every command.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $field:literal,)*) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counter {
            $($(#[$doc])* $counter,)*
        }

        /// Each counter with its field of `INFO lock`; the server puts `lock_` before the name.
        pub(crate) const COUNTERS: &[(Counter, &CStr)] = &[$((Counter::$counter, $field),)*];
    };
}

counters! {
    /// New grants, to whoever asked or waited.
    Grants = c"grants",
    /// Acquires by the owner that holds the lock.
    Reentries = c"reentries",
    /// Renewals.
    Renewals = c"renewals",
    /// Releases that gave holds back.
    Releases = c"releases",
    /// Acquires, releases and renewals that were refused for the state of the lock.
    Refusals = c"refusals",
    /// New grants to calls that had waited.
    HandOffs = c"hand_offs",
    /// Waits that ended because their time was over.
    WaitTimeOuts = c"wait_timeouts",
    /// Waits that the caller or an administrator ended.
    WaitsGivenUp = c"waits_given_up",
    /// Held locks whose lease ended.
    Expirations = c"expirations",
    /// Calls that could not wait because too many did.
    MaxWaitersRejections = c"max_waiters_rejections",
    /// Checks of a token by `LOCK.FENCE`.
    FenceChecks = c"fence_checks",
    /// Those of them that failed.
    FencedRefusals = c"fenced_refusals",
    /// Held locks that were taken away otherwise, but for flushes.
    Removals = c"forced_removals",
}

/// Written by one thread at a time, whoever holds the server.
static NUMBERS: [AtomicU64; COUNTERS.len()] = [const { AtomicU64::new(0) }; COUNTERS.len()];

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
