//! Time, as the state knows it.

use std::time::Duration;

/// A moment, as the time since a fixed moment on a monotonic clock.
pub(crate) type Time = Duration;

/// The end of a wait without a limit.
pub(super) const FAR: Time = Duration::from_secs(1 << 40);

/// The longest time that the server takes.
const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Milliseconds for the server, rounded up.
pub(crate) fn millis(time: Duration) -> u64 {
    let rounded = time.min(TEN_YEARS).as_nanos().div_ceil(1_000_000);
    u64::try_from(rounded).unwrap_or(u64::MAX)
}
