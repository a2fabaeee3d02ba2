//! The parts of a lease.

use std::time::Duration;

use super::hearing::Now;
use crate::{Deadline, Lease, Monotonic};

pub(super) fn third(lease: Lease) -> Duration {
    Duration::from_millis(lease.millis()) / 3
}

/// How long after a try that came to nothing, or after a look at a lease without end.
pub(super) fn again(lease: Lease) -> Duration {
    let often = Duration::from_millis(lease.millis()) / 30;
    often.clamp(Duration::from_millis(10), Duration::from_secs(1))
}

/// What is left of a lease.
pub(super) fn left(deadline: Deadline, now: Now) -> Duration {
    match deadline {
        Deadline::At(end) => Duration::from_millis(end.saturating_sub(now.unix.millis())),
        Deadline::Never => Duration::MAX,
    }
}

/// True when less than a third of the lease is left.
pub(super) fn is_short(lease: Lease, deadline: Deadline, now: Now) -> bool {
    left(deadline, now) < third(lease)
}

/// When less than a third of the lease will be left.
pub(super) fn short_at(lease: Lease, deadline: Deadline, now: Now) -> Monotonic {
    match left(deadline, now).checked_sub(third(lease)) {
        Some(wait) => now.monotonic.plus(wait + Duration::from_micros(1)),
        None => now.monotonic,
    }
}
