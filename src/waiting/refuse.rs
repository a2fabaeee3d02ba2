//! Waits that end with an error.

use redis_lock_core::CallId;

use super::answer::Answer;
use super::state::STATE;
use crate::locks::{CommandError, monotonic};
use crate::server::{Blocked, Context, Text};
use crate::statistics::WaitEnd;

/// Ends a wait with an error.
pub(super) fn refuse(context: Context<'_>, id: CallId, error: CommandError) {
    if let Some(blocked) = STATE.with(context, |state| {
        state.end_wait(context, monotonic(), id, WaitEnd::Refused)
    }) {
        blocked.answer(Answer::Error(error));
    }
}

/// Ends all waits for a lock of the selected database with these answers.
pub(super) fn refuse_all(context: Context<'_>, name: Text<'_>, answer: impl Fn(u64) -> Answer) {
    let next = || -> Option<(u64, Blocked<_>)> {
        STATE.with(context, |state| {
            let id = state.calls.first(context.database(), name.bytes())?;
            let client = state.calls.get(id)?.waiter.client_id;
            let blocked = state.end_wait(context, monotonic(), id, WaitEnd::Refused)?;
            Some((client, blocked))
        })
    };
    while let Some((client, blocked)) = next() {
        blocked.answer(answer(client));
    }
}
