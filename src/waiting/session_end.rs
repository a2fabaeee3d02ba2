//! Ends a session: removes its waiting calls and releases its grants.

use redis_lock_core::sessions::{SessionGrant, SessionId};
use redis_lock_core::{LockId, Release, ReleaseAmount};

use super::ended::open_without_ended;
use super::give_back::apply_give_backs;
use super::refuse::refuse;
use super::serve::{Caller, serve};
use super::state::STATE;
use super::timer;
use crate::locks::{Announce, KeyspaceEvent, Slice, now, released as grant_released};
use crate::server::{Context, OwnedText};
use crate::sessions;
use crate::statistics::{self, Counter};

/// How many calls of a session wait.
pub(crate) fn waiting_of(context: Context<'_>, session: SessionId) -> usize {
    STATE.if_busy(context, |state| state.calls.waiting_of_session(session))
}

/// Ends the waits of a session that has ended, and serves the calls behind them. Many calls take several ticks, but
/// none of them is granted meanwhile.
pub(crate) fn session_ended(context: Context<'_>, session: SessionId) {
    if STATE.if_session_waits(context, session, |state| {
        state.ended_sessions.push(session);
    }) {
        let database = context.database();
        let slice = Slice::begin();
        for LockId { database, key } in end_rest(context) {
            if context.select_database(database) {
                serve(context, OwnedText::new(&key).text(), Caller::EventLoop);
            }
            if slice.is_over() {
                break;
            }
        }
        context.select_database(database);
        timer::soon(context);
    }
}

/// Continues to end the waits of sessions that have ended, for one slice of time. Returns the locks whose line has
/// changed.
pub(super) fn end_rest(context: Context<'_>) -> Vec<LockId> {
    let (slice, mut locks) = (Slice::begin(), Vec::new());
    while let Some(session) = STATE.if_busy(context, |state| state.ended_sessions.last().copied()) {
        let next = STATE.with(context, |state| {
            let id = state.calls.of_session(session).next()?;
            Some((id, state.calls.get(id)?.lock_id.clone()))
        });
        if let Some((id, lock_id)) = next {
            refuse(context, id, sessions::NO_SESSION);
            if locks.last() != Some(&lock_id) {
                locks.push(lock_id);
            }
        } else {
            STATE.with(context, |state| state.ended_sessions.pop());
        }
        if slice.is_over() {
            break;
        }
    }
    locks
}

/// Releases all holds of a grant of a closed session, and serves the waiters of the lock. The caller has selected the
/// database.
pub(crate) fn release_of_session(context: Context<'_>, grant: &SessionGrant) {
    let name = OwnedText::new(&grant.lock_id.key);
    let name = name.text();
    apply_give_backs(context, name, Caller::EventLoop);
    let key = open_without_ended(context, name);
    if let Ok(Some(holders)) = key.holders() {
        let request = Release {
            owner: grant.owner.as_owner(),
            amount: ReleaseAmount::All,
            token: Some(grant.token),
        };
        let released = redis_lock_core::release(Some(&holders), &request, || now(context));
        if let Ok(released) = released {
            statistics::count(Counter::Releases);
            grant_released(context, grant.token);
            let events = Announce::Events(&[KeyspaceEvent::Release]);
            sessions::track_cap(&key, &released.change);
            key.write(&released.change, events);
        }
    }
    serve(context, name, Caller::EventLoop);
}
