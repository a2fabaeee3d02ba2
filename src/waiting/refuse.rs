//! Waits that end with an error.

use redis_lock_core::{LockId, WaiterId};

use super::answer::Answer;
use super::state::STATE;
use crate::locks::CommandError;
use crate::server::{Blocked, Context};
use crate::statistics::WaitEnd;

/// Ends a wait with an error.
pub(super) fn refuse(context: Context<'_>, id: WaiterId, error: CommandError) {
    if let Some(blocked) = STATE.with(context, |state| {
        state.end_wait(context, id, WaitEnd::Refused)
    }) {
        blocked.answer(Answer::Error(error));
    }
}

/// Ends all waits for the lock with these answers.
pub(super) fn refuse_all(context: Context<'_>, lock_id: &LockId, answer: impl Fn(u64) -> Answer) {
    let next = || -> Option<(u64, Blocked<_>)> {
        STATE.with(context, |state| {
            let id = state.queues.first(lock_id.database, &lock_id.key)?;
            let client = state.queues.get(id)?.client_id;
            Some((client, state.end_wait(context, id, WaitEnd::Refused)?))
        })
    };
    while let Some((client, blocked)) = next() {
        blocked.answer(answer(client));
    }
}
