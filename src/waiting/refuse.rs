//! Ends waits with an error.

use redis_lock_core::{CallId, Waiter};

use super::answer::Answer;
use super::state::STATE;
use crate::locks::{CommandError, Slice, monotonic};
use crate::server::{Context, Text};
use crate::sessions;
use crate::statistics::WaitEnd;

/// Ends a wait with an error.
pub(super) fn refuse(context: Context<'_>, id: CallId, error: CommandError) {
    if let Some(recipient) = STATE.with(context, |state| {
        state.end_wait(context, monotonic(), id, WaitEnd::Refused)
    }) {
        recipient.answer(context, Answer::Error(error));
    }
}

/// Ends all waits for a lock of the selected database. `answer` takes the client of each call, as [`client_of`] returns
/// it. Returns false if there were too many calls for one slice of time; the next tick then continues.
pub(super) fn refuse_all(
    context: Context<'_>,
    name: Text<'_>,
    answer: impl Fn(u64) -> Answer,
) -> bool {
    let next = || {
        STATE.with(context, |state| {
            let id = state.calls.first(context.database(), name.bytes())?;
            let waiter = state.calls.get(id)?.waiter.clone();
            let recipient = state.end_wait(context, monotonic(), id, WaitEnd::Refused)?;
            Some((waiter, recipient))
        })
    };
    let slice = Slice::begin();
    while let Some((waiter, recipient)) = next() {
        recipient.answer(context, answer(client_of(context, &waiter)));
        if slice.is_over() {
            STATE.with(context, |state| {
                let calls = &mut state.calls;
                calls.make_ready(context.database(), name.bytes())
            });
            return false;
        }
    }
    true
}

/// The client of a call. For a queued call that is the client that polls its session; 0 for none.
pub(crate) fn client_of(context: Context<'_>, waiter: &Waiter) -> u64 {
    let polling = || sessions::polling_client(context, waiter.session?);
    waiter.client_id.or_else(polling).unwrap_or(0)
}
