//! One moment by the wall clock and the monotonic clock.

use std::time::Duration;

use crate::{Monotonic, UnixTime};

/// One moment by both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// For intervals.
    pub monotonic: Monotonic,
    /// For the ends of leases.
    pub unix: UnixTime,
}

impl Now {
    /// The monotonic time after `length`.
    pub(super) fn plus(self, length: Duration) -> Monotonic {
        self.monotonic.plus(length)
    }

    /// This time on a clock that was stopped for `length`. The silence of programs is measured by it.
    pub(super) fn without(self, length: Duration) -> Monotonic {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Monotonic(self.monotonic.0.saturating_sub(micros))
    }
}
