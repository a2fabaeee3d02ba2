//! Opens, closes, lists and looks up sessions.

use std::sync::Arc;

use redis_lock_core::OwnerBuf;
use redis_lock_core::sessions::{
    Counts, EventKind, GrantPlace, Opening, Presence, SessionGrant, SessionId, SessionInfo,
    SessionTimeout,
};

use super::errors::{NO_CONNECTION, NO_SESSION, NOT_OPEN, POLLS_ITSELF, TOO_MANY};
use super::state::STATE;
use super::upper::{end_waits, presence_changed, release};
use super::{follow, polls, timer, work};
use crate::locks::{CommandError, max_sessions, random_number};
use crate::server::Context;

/// How many grants CLOSE releases before it replies.
const RELEASED_AT_ONCE: usize = 100;

/// Opens a session, which the calling connection polls at first.
pub(crate) fn open(
    context: Context<'_>,
    timeout: SessionTimeout,
    name: &[u8],
) -> Result<SessionId, CommandError> {
    if !context.comes_from_connection() {
        return Err(NO_CONNECTION);
    }
    let user = context.user_name().ok_or(NO_CONNECTION)?;
    if counts(context).sessions >= max_sessions() {
        return Err(TOO_MANY);
    }
    let opening = Opening {
        user: user.text().bytes(),
        database: context.database(),
        client_id: context.client_id(),
        name,
        timeout,
    };
    loop {
        let number = random_number(context) & SessionId::MAX.number();
        let Some(id) = SessionId::new(number) else {
            continue;
        };
        if STATE.with_time(context, |state, now| state.sessions.open(id, opening, now)) {
            follow::begin(context);
            return Ok(id);
        }
    }
}

/// Returns an error unless the session belongs to the caller's user and database.
pub(crate) fn check_known(context: Context<'_>, id: SessionId) -> Result<(), CommandError> {
    let user = context.user_name().filter(|_| STATE.any());
    let user = user.ok_or(NO_SESSION)?;
    let (user, database) = (user.text().bytes(), context.database());
    if STATE.with(context, |state| state.sessions.knows(id, user, database)) {
        Ok(())
    } else {
        Err(NO_SESSION)
    }
}

/// Returns an error unless a session with this id is open, whoever its user is.
pub(crate) fn check_open(context: Context<'_>, id: SessionId) -> Result<(), CommandError> {
    if STATE.any() && STATE.with(context, |state| state.sessions.is_open(id)) {
        Ok(())
    } else {
        Err(NOT_OPEN)
    }
}

/// Returns an error if the caller's connection polls this session, because it cannot poll while it is blocked.
pub(crate) fn check_may_block(context: Context<'_>, id: SessionId) -> Result<(), CommandError> {
    let client = STATE.with(context, |state| {
        let is_blocked = state.polls.contains_key(&id);
        state.sessions.client_of(id).filter(|_| !is_blocked)
    });
    let polls_itself = client.is_some_and(|client| {
        if context.flags().in_script() {
            // A script runs with a client of its own, so its id says nothing about the connection.
            context.may_be_running(client)
        } else {
            context.client_id() == client
        }
    });
    if polls_itself {
        Err(POLLS_ITSELF)
    } else {
        Ok(())
    }
}

/// Ends an open session. Returns the number of its grants, which are released now or by the timer.
pub(crate) fn close(context: Context<'_>, id: SessionId) -> Result<usize, CommandError> {
    let closed = STATE.with(context, |state| state.sessions.close(id));
    let closed = closed.ok_or(NO_SESSION)?;
    polls::refuse(context, id, NO_SESSION);
    end_waits(context, id);
    let database = context.database();
    for _ in 0..closed.grants.min(RELEASED_AT_ONCE) {
        let taken = STATE.with(context, |state| {
            state.sessions.take_to_release_of_session(id)
        });
        let Some(grant) = taken else { break };
        release(context, &grant);
    }
    context.select_database(database);
    timer::arm(context);
    Ok(closed.grants)
}

/// Whether the program of a session is present.
pub(crate) fn presence(context: Context<'_>, id: SessionId) -> Presence {
    STATE.with(context, |state| state.sessions.presence(id))
}

/// The client that polls a session, if any.
pub(crate) fn polling_client(context: Context<'_>, id: SessionId) -> Option<u64> {
    STATE.with(context, |state| state.sessions.client_of(id))
}

/// Marks the sessions of a polling client whose connection has closed before the server has read that.
pub(crate) fn polling_client_closes(context: Context<'_>, client: u64) {
    let ids = STATE.with(context, |state| state.sessions.closing(client));
    for id in ids {
        presence_changed(context, id);
    }
}

/// Adds the event of a queued call to its session.
pub(crate) fn report(
    context: Context<'_>,
    id: SessionId,
    key: &Arc<[u8]>,
    owner: &OwnerBuf,
    kind: EventKind,
) {
    let polls = STATE.with(context, |state| {
        state.sessions.report(id, key, owner, kind);
        state.polls.contains_key(&id)
    });
    if polls {
        follow::answer_at_end(context);
    }
}

/// At most `max` sessions, oldest first.
pub(crate) fn list(context: Context<'_>, max: usize) -> Vec<SessionInfo> {
    let mut list = STATE.with_time(context, |state, now| state.sessions.list(max, now));
    for session in &mut list {
        if session.client_id > 0 && !work::is_attached(context, session.id) {
            session.client_id = 0;
        }
    }
    list
}

/// The next grant of a session after `place`. Moves `place` to that grant.
pub(crate) fn next_grant(
    context: Context<'_>,
    id: SessionId,
    place: &mut GrantPlace,
) -> Option<SessionGrant> {
    STATE.with(context, |state| {
        state.sessions.file_grants();
        state.sessions.next_grant(id, place)
    })
}

/// The numbers for `INFO lock`.
pub(crate) fn counts(context: Context<'_>) -> Counts {
    STATE.with(context, |state| state.sessions.counts())
}
