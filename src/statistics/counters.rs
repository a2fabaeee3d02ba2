//! Counters: one number each, cheap enough for every command.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $field:literal,)*) => {
        /// The meaning of the counter.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counter {
            $($(#[$doc])* $counter,)*
        }

        /// Each counter with its field of `INFO lock`; the server puts `lock_` before the name.
        pub(crate) const COUNTERS: &[(Counter, &CStr)] = &[$((Counter::$counter, $field),)*];
    };
}

counters! {
    /// New grants, with or without waiting.
    Grants = c"grants",
    /// Acquires by the owner that holds the lock.
    Reentries = c"reentries",
    /// Renewals.
    Renewals = c"renewals",
    /// Releases that gave holds back.
    Releases = c"releases",
    /// Acquires, releases and renewals that the state of the lock refused.
    Refusals = c"refusals",
    /// New grants to calls that had waited.
    HandOffs = c"hand_offs",
    /// Waits that ended by time.
    WaitTimeOuts = c"wait_timeouts",
    /// Waits that the caller or an administrator ended.
    WaitsGivenUp = c"waits_given_up",
    /// Held locks whose lease ended.
    Expirations = c"expirations",
    /// Calls that could not wait because too many waited.
    MaxWaitersRejections = c"max_waiters_rejections",
    /// Calls that would have waited in a cycle.
    Deadlocks = c"deadlocks",
    /// Checks of a token by `LOCK.FENCE`.
    FenceChecks = c"fence_checks",
    /// Failed checks of a token.
    FencedRefusals = c"fenced_refusals",
    /// Held locks that ended in other ways, except by flushes.
    Removals = c"forced_removals",
}

/// Written only under the server's lock.
static NUMBERS: [AtomicU64; COUNTERS.len()] = [const { AtomicU64::new(0) }; COUNTERS.len()];

/// Adds one.
pub(crate) fn count(counter: Counter) {
    add(counter, 1);
}

/// Takes back one that turned out to be something else.
pub(crate) fn uncount(counter: Counter) {
    add(counter, u64::MAX);
}

/// A load and a store: there is one writer at a time, and an atomic addition costs several times as much.
fn add(counter: Counter, more: u64) {
    let number = &NUMBERS[counter as usize];
    let now = number.load(Ordering::Relaxed).wrapping_add(more);
    number.store(now, Ordering::Relaxed);
}

/// The count since the server was started.
pub(crate) fn counted(counter: Counter) -> i64 {
    NUMBERS[counter as usize]
        .load(Ordering::Relaxed)
        .cast_signed()
}
