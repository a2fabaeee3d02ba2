//! The two clocks of a call, and a clock for silence.

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

/// A time of the clock that stops while the server stalls or is paused, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Alive(u64);

impl Alive {
    pub(super) fn plus(self, length: Duration) -> Self {
        Self(Monotonic(self.0).plus(length).0)
    }

    pub(super) const fn since(self, earlier: Self) -> Duration {
        Monotonic(self.0).since(Monotonic(earlier.0))
    }
}

/// How long the server has been stalled or paused so far.
#[derive(Debug, Default)]
pub(super) struct AliveClock {
    stalled: Duration,
}

impl AliveClock {
    pub(super) fn stalled(&mut self, length: Duration) {
        self.stalled = self.stalled.saturating_add(length);
    }

    pub(super) fn at(&self, time: Monotonic) -> Alive {
        Alive(time.0.saturating_sub(self.micros()))
    }

    /// When this clock shows `time`, if the server does not stall until then.
    pub(super) fn monotonic(&self, time: Alive) -> Monotonic {
        Monotonic(time.0.saturating_add(self.micros()))
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.stalled.as_micros()).unwrap_or(u64::MAX)
    }
}
