//! The time limit for one part of the work in the event loop.

use std::time::Duration;

use redis_lock_core::Monotonic;

use super::monotonic;

/// The time limit for each part of the work in the event loop, and for serving one lock. The rest is left for the next
/// time, so that the server serves its other clients in between.
pub(crate) const SLICE: Duration = Duration::from_millis(1);

/// The time of a part of the work. Each part does at least one step, so that it always makes progress.
pub(crate) struct Slice(Monotonic);

impl Slice {
    pub(crate) fn begin() -> Self {
        Self(monotonic())
    }

    pub(crate) fn is_over(&self) -> bool {
        monotonic().since(self.0) >= SLICE
    }
}
