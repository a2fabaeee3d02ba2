//! How long the event loop is held up.

use std::time::Duration;

use redis_lock_core::Monotonic;

use crate::locks::monotonic;

/// How long each part of a tick, and the service of one lock, works before it leaves the rest to the next
/// tick, so that the server serves its other clients in between.
pub(super) const SLICE: Duration = Duration::from_millis(1);

/// So many grants of one lock at most. The server writes their replies before it serves its other clients,
/// which takes longer than the grants.
pub(super) const MAX_GRANTS: usize = 64;

/// The time of a part of a tick. Each part does at least one step, so that it always makes progress.
pub(super) struct Slice(Monotonic);

impl Slice {
    pub(super) fn begin() -> Self {
        Self(monotonic())
    }

    pub(super) fn is_over(&self) -> bool {
        monotonic().since(self.0) >= SLICE
    }
}
