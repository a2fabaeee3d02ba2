//! A clock that is the same for all processes of a run.

use history::Moment;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Microseconds by the machine's monotonic clock, which every process sees alike.
pub(crate) fn now() -> Moment {
    let time = clock_gettime(ClockId::Monotonic);
    micros(Duration::try_from(time).expect("the clock began at zero"))
}

pub(crate) fn micros(duration: Duration) -> Moment {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
