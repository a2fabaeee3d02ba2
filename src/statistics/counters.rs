//! Counters that are cheap enough for every command.

use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $counter:ident = $field:literal,)*) => {
        /// A counter.
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
    /// Releases that gave back holds.
    Releases = c"releases",
    /// Acquires, releases and renewals that the state of the lock refused.
    Refusals = c"refusals",
    /// New grants to calls that had waited.
    HandOffs = c"hand_offs",
    /// Waits that timed out.
    WaitTimeOuts = c"wait_timeouts",
    /// Waits that ended because the client disconnected, or the owner or an administrator ended them.
    WaitsGivenUp = c"waits_given_up",
    /// Grants whose lease ended.
    Expirations = c"expirations",
    /// Calls that could not wait because a limit of waiting calls was reached.
    MaxWaitersRejections = c"max_waiters_rejections",
    /// Calls refused because waiting would have created a deadlock cycle.
    Deadlocks = c"deadlocks",
    /// Checks of a token by `LOCK.FENCE`.
    FenceChecks = c"fence_checks",
    /// Failed checks of a token.
    FencedRefusals = c"fenced_refusals",
    /// Grants that ended in other ways, except by flushes.
    Removals = c"forced_removals",
}

/// Written only under the server's lock.
static NUMBERS: [AtomicU64; COUNTERS.len()] = [const { AtomicU64::new(0) }; COUNTERS.len()];

/// Adds one.
pub(crate) fn count(counter: Counter) {
    add(counter, 1);
}

/// Subtracts one, for an event that turned out to be something else.
pub(crate) fn uncount(counter: Counter) {
    add(counter, u64::MAX);
}

/// Loads and stores the number, because there is only one writer at a time, and an atomic addition costs several times
/// as much.
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
