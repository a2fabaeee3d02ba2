//! The time limit for work in the event loop.

use std::time::Duration;

use redis_lock_core::Monotonic;

use super::monotonic;

/// The time limit for each part of the work in the event loop, and for serving one lock. The rest waits for the next
/// tick, so that the server can serve its clients in between.
pub(crate) const SLICE: Duration = Duration::from_millis(1);

/// Measures the time of one part of the work. Each part does at least one step before it checks the time, so that it
/// always makes progress.
pub(crate) struct Slice(Monotonic);

impl Slice {
    pub(crate) fn begin() -> Self {
        Self(monotonic())
    }

    pub(crate) fn is_over(&self) -> bool {
        monotonic().since(self.0) >= SLICE
    }
}
