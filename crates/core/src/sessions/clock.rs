//! The current time by the wall clock and the monotonic clock.

use std::time::Duration;

use crate::{Monotonic, UnixTime};

/// The current time by both clocks.
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

    /// The current time on a clock that has stood still for `length`. The silence of programs is measured on this
    /// clock.
    pub(super) fn without(self, length: Duration) -> Monotonic {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Monotonic(self.monotonic.0.saturating_sub(micros))
    }
}
