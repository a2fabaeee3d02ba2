//! POLL: a client is blocked until there is something to answer, or something to renew first.

use std::time::Duration;

use redis_lock_core::sessions::{Block, EventKind, Now, PollRefusal, PollReply, SessionId};

use super::errors::{NEWER_CONNECTION, NO_CONNECTION, NO_SESSION};
use super::state::{STATE, State};
use super::work;
use crate::locks::CommandError;
use crate::server::{Blocked, Context, Handle, Waits};

/// Marks the clients that are blocked in a POLL.
pub(super) struct Poll;

/// The answer to a POLL that was blocked.
pub(super) enum Answer {
    /// What is new in this session when the answer is written.
    Reply(SessionId),
    Error(CommandError),
}

/// What became of a POLL.
pub(crate) enum Polled {
    /// It is answered later.
    Blocked,
    /// It is answered now.
    Now(PollReply),
}

/// A client polls a session. `wait_ms` is how long it waits, 0 for as long as the server lets it.
pub(crate) fn poll(
    context: Context<'_>,
    id: SessionId,
    wait_ms: Option<u64>,
) -> Result<Polled, CommandError> {
    if !context.comes_from_connection() {
        return Err(NO_CONNECTION);
    }
    let (client, database) = (context.client_id(), context.database());
    let Some(user) = context.user_name().filter(|_| STATE.any()) else {
        return Err(NO_SESSION);
    };
    let user = user.text().bytes();
    // Before anything is acknowledged.
    let has_due = STATE.with_time(context, |state, now| {
        let sessions = &state.sessions;
        let allowed = sessions.may_poll(id, user, database, client);
        allowed.map(|()| sessions.has_due_of(id, now))
    });
    let has_due = has_due.map_err(refusal)?;
    let block = match wait_ms {
        None => Block::No,
        Some(0) => Block::Forever,
        Some(ms) => Block::For(Duration::from_millis(ms)),
    };
    let blocked = if context.flags().may_block() && (has_due || block != Block::No) {
        let blocked = Blocked::<Poll>::block(context);
        if blocked.is_none() && block != Block::No {
            return Err(CommandError::CannotWait);
        }
        blocked
    } else {
        None
    };
    let waits = blocked.is_some();
    let (displaced, reply) = STATE.with_time(context, |state, now| {
        let polled = state
            .sessions
            .poll(id, user, database, client, block, now)
            .ok()?;
        let displaced = polled.displaced.and_then(|_| state.take_poll(id));
        let Some(blocked) = blocked else {
            return Some((displaced, state.sessions.answer_now(id, now)));
        };
        state.handles.insert(blocked.handle(), id);
        state.polls.insert(id, blocked);
        if has_due_now(state, id, now) {
            state.to_answer.push_back(id);
        } else {
            state.sessions.judge(id, now);
        }
        Some((displaced, None))
    }).unwrap_or_default();
    if let Some(displaced) = displaced {
        displaced.answer(Answer::Error(NEWER_CONNECTION));
    }
    work::arm(context);
    match reply {
        Some(reply) => Ok(Polled::Now(reply)),
        None if waits => Ok(Polled::Blocked),
        None => Err(NO_SESSION),
    }
}
