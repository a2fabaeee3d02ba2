//! POLL: blocks the client until there are events to return or the wait ends. A POLL that does not wait is blocked too
//! if grants are due, until the timer has renewed them.

use std::time::Duration;

use redis_lock_core::sessions::{Block, PollRefusal, PollReply, SessionId};

use super::answer::{Answer, Poll};
use super::errors::{NEWER_CONNECTION, NO_CONNECTION, NO_SESSION};
use super::reply::write_reply;
use super::state::STATE;
use super::timer;
use super::upper::presence_changed;
use crate::locks::CommandError;
use crate::server::{Blocked, BlockedCallbacks, Context};

/// Polls a session. `wait_ms` is how long the client is willing to wait; 0 is as long as the server allows. Returns the
/// reply, or `None` if the client is blocked and gets the reply later.
pub(crate) fn poll(
    context: Context<'_>,
    id: SessionId,
    wait_ms: Option<u64>,
) -> Result<Option<PollReply>, CommandError> {
    let (client, database) = (context.client_id(), context.database());
    if !polls_already(context, id, client) && !context.comes_from_connection() {
        return Err(NO_CONNECTION);
    }
    let user = context.user_name().filter(|_| STATE.any());
    let user = user.ok_or(NO_SESSION)?;
    let user = user.text().bytes();
    // Refuse the call before it acknowledges any event.
    let has_due = STATE.with_time(context, |state, now| {
        let sessions = &mut state.sessions;
        let may_poll = sessions.may_poll(id, user, database, client);
        may_poll.map(|()| sessions.next_due_of(id, now).is_some())
    });
    let has_due = has_due.map_err(refusal)?;
    let block = match wait_ms {
        None => Block::No,
        Some(0) => Block::Forever,
        Some(ms) => Block::For(Duration::from_millis(ms)),
    };
    let waits = context.flags().may_block() && (has_due || block != Block::No);
    let blocked = waits.then(|| Blocked::<Poll>::block(context)).flatten();
    if waits && blocked.is_none() && block != Block::No {
        return Err(CommandError::CannotWait);
    }
    let (polled, displaced, reply) = STATE.with_time(context, |state, now| {
        let sessions = &mut state.sessions;
        let polled = sessions.poll(id, user, database, client, block, now);
        let displaced = state.take_poll(id);
        let Some(blocked) = blocked else {
            return (polled, displaced, state.sessions.answer_now(id, now));
        };
        state.add_poll(id, client, blocked);
        (polled, displaced, None)
    });
    if let Some(displaced) = displaced {
        displaced.answer(Answer::Error(NEWER_CONNECTION));
    }
    let polled = polled.map_err(refusal)?;
    if polled.was_away {
        presence_changed(context, id);
    }
    if waits && !has_due && !polled.waits {
        answer(context, id);
    }
    if polled.was_away {
        // The grants of the session are renewed again.
        timer::arm(context);
    } else {
        timer::arm_for_polls(context);
    }
    Ok(reply)
}

/// Returns true if this client polled the session last. It is then known to be a connection, because the server never
/// reuses a client id.
fn polls_already(context: Context<'_>, id: SessionId, client: u64) -> bool {
    STATE.any()
        && STATE.with(context, |state| {
            state.sessions.client_of(id) == Some(client)
        })
}

const fn refusal(refusal: PollRefusal) -> CommandError {
    match refusal {
        PollRefusal::NoSession => NO_SESSION,
        PollRefusal::NewerConnection => NEWER_CONNECTION,
    }
}

/// Answers the waiting POLL of a session, unless it has to keep waiting.
pub(super) fn answer(context: Context<'_>, id: SessionId) {
    let answered = STATE.with_time(context, |state, now| {
        let reply = state.sessions.answer(id, now)?;
        Some((state.take_poll(id)?, reply))
    });
    if let Some((blocked, reply)) = answered {
        blocked.answer(Answer::Reply(reply));
    }
}

/// Answers the waiting POLL of a session with an error, if there is one.
pub(super) fn refuse(context: Context<'_>, id: SessionId, error: CommandError) {
    if let Some(blocked) = STATE.with(context, |state| state.take_poll(id)) {
        blocked.answer(Answer::Error(error));
    }
}

impl BlockedCallbacks for Poll {
    type Answer = Answer;

    fn reply(context: Context<'_>, answer: &Answer) {
        match answer {
            Answer::Reply(reply) => write_reply(context, reply),
            Answer::Error(error) => error.reply(context),
        }
    }

    fn disconnected(context: Context<'_>) -> Option<Blocked<Self>> {
        // The server also calls this when it unblocks the client itself, so the client may still be connected.
        let Some((blocked, _)) = end(context) else {
            // The module had answered already, and the server dropped that answer.
            let client = context.client_id();
            STATE.with(context, |state| state.sessions.unanswered(client));
            return None;
        };
        Some(blocked)
    }

    fn unblocked(context: Context<'_>) -> Option<Blocked<Self>> {
        let (blocked, reply) = end(context)?;
        write_reply(context, &reply);
        Some(blocked)
    }
}

/// Ends the waiting POLL of the client, with a reply without events.
fn end(context: Context<'_>) -> Option<(Blocked<Poll>, PollReply)> {
    STATE.with_time(context, |state, now| {
        let id = state.polled_by(context.client_id())?;
        let reply = state.sessions.answer_empty(id, now);
        let reply = reply.unwrap_or(PollReply {
            sure_ms: 0,
            grants: 0,
            events: Vec::new(),
        });
        Some((state.take_poll(id)?, reply))
    })
}
