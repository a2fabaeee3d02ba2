//! The lines as commands see them: how many calls wait, and which.

use std::sync::Arc;

use redis_lock_core::{QueueWaits, Waiter};

use super::state::STATE;
use crate::server::{Context, Text};

/// How many calls wait for a lock.
pub(crate) fn waiting(context: Context<'_>, name: Text<'_>) -> usize {
    STATE.if_busy(context, |state| {
        state.calls.waiting(context.database(), name.bytes())
    })
}

/// How many calls wait for all locks, and the longest line.
pub(crate) fn queue_sizes(context: Context<'_>) -> (usize, usize) {
    STATE.with(context, |state| {
        (state.calls.len(), state.calls.max_waiting())
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
