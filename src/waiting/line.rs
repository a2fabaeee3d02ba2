//! Answers questions of commands about lines: which calls wait, and how many.

use std::sync::Arc;

use redis_lock_core::{QueueWaits, Waiter};

use super::state::STATE;
use crate::locks::monotonic;
use crate::server::{Context, Text};

/// How many calls wait for a lock.
pub(crate) fn waiting(context: Context<'_>, name: Text<'_>) -> usize {
    STATE.if_busy(context, |state| {
        state.calls.waiting(context.database(), name.bytes())
    })
}

/// Returns true if a new call must wait behind a call in line. A call that is passed over does not count, unless its
/// program may turn out to be back.
pub(super) fn stands_in_line(context: Context<'_>, name: Text<'_>) -> bool {
    STATE.if_busy(context, |state| {
        let (calls, lock) = (&state.calls, (context.database(), name.bytes()));
        calls.first_eligible(lock.0, lock.1).is_some()
            || calls.waiting(lock.0, lock.1) > 0
                && (state.presence_changes.concern(calls, lock.0, lock.1)
                    || STATE.stalls.is_catching_up(monotonic()))
    })
}

/// How many calls wait on the server.
pub(crate) struct QueueSizes {
    /// Calls of blocked clients.
    pub(crate) blocked: usize,
    /// Queued calls.
    pub(crate) queued: usize,
    /// Calls in the longest line.
    pub(crate) longest: usize,
}

pub(crate) fn queue_sizes(context: Context<'_>) -> QueueSizes {
    STATE.with(context, |state| {
        let calls = &state.calls;
        QueueSizes {
            blocked: calls.len() - calls.queued(),
            queued: calls.queued(),
            longest: calls.max_waiting(),
        }
    })
}

/// The current waits for each key of the caller's database.
pub(crate) fn ongoing_waits(context: Context<'_>) -> Vec<(Arc<[u8]>, QueueWaits)> {
    STATE.with(context, |state| {
        let waits = state.calls.waits(context.database());
        waits.map(|(key, waits)| (Arc::clone(key), waits)).collect()
    })
}

/// At most `max` of the calls that wait for a lock, in the order of the line.
pub(crate) fn waiters(context: Context<'_>, name: Text<'_>, max: usize) -> Vec<Waiter> {
    STATE.with(context, |state| {
        state
            .calls
            .iter(context.database(), name.bytes())
            .take(max)
            .map(|(_, call)| call.waiter.clone())
            .collect()
    })
}
