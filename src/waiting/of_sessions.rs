//! The waiting calls of sessions, and what a closed session leaves.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_lock_core::sessions::{SessionGrant, SessionId};
use redis_lock_core::sharing;
use redis_lock_core::{Map, Release, ReleaseAmount, WaiterId, shrink_if_sparse};

use super::ended::end_leases;
use super::give_back::settle_before_look;
use super::refuse::refuse;
use super::serve::{Caller, serve};
use super::timer;
use crate::locks::{KeyspaceEvent, LockKey, now, released};
use crate::server::{Context, GilCell, OwnedText};
use crate::sessions::{self, Membership};
use crate::statistics::{self, Counter};

static CALLS: GilCell<Option<Calls>> = GilCell::new(None);
/// True when a call of a session waits: each call that ends asks this.
static ANY: AtomicBool = AtomicBool::new(false);

#[derive(Default)]
struct Calls {
    sessions: Map<WaiterId, SessionId>,
    calls: BTreeSet<(SessionId, WaiterId)>,
}

fn with<R>(context: Context<'_>, body: impl FnOnce(&mut Calls) -> R) -> R {
    CALLS.with(context, |calls| {
        let calls = calls.get_or_insert_default();
        let result = body(calls);
        ANY.store(!calls.calls.is_empty(), Ordering::Relaxed);
        result
    })
}

/// A call of a session begins to wait.
pub(super) fn begin(context: Context<'_>, call: WaiterId, session: SessionId) {
    with(context, |calls| {
        calls.sessions.insert(call, session);
        calls.calls.insert((session, call));
    });
}

/// A call waits no longer.
pub(super) fn end(context: Context<'_>, call: WaiterId) {
    if ANY.load(Ordering::Relaxed) {
        with(context, |calls| {
            if let Some(session) = calls.sessions.remove(&call) {
                shrink_if_sparse(&mut calls.sessions);
                calls.calls.remove(&(session, call));
            }
        });
    }
}

/// The session of a waiting call.
pub(super) fn session_of(context: Context<'_>, call: WaiterId) -> Option<SessionId> {
    if !ANY.load(Ordering::Relaxed) {
        return None;
    }
    with(context, |calls| calls.sessions.get(&call).copied())
}

/// To which session the grant of a waiting call belongs.
pub(super) fn membership(context: Context<'_>, call: WaiterId) -> Membership {
    session_of(context, call).map_or(Membership::Stays, Membership::Joins)
}

/// How many calls of a session wait.
pub(crate) fn waiting_of(context: Context<'_>, session: SessionId) -> usize {
    with(context, |calls| of(calls, session).count())
}

fn of(calls: &Calls, session: SessionId) -> impl Iterator<Item = WaiterId> {
    let from = calls.calls.range((session, WaiterId::FIRST)..);
    from.take_while(move |(of, _)| *of == session)
        .map(|(_, call)| *call)
}

/// A session has ended: so have the waits of its calls.
pub(crate) fn session_ended(context: Context<'_>, session: SessionId) {
    if !ANY.load(Ordering::Relaxed) {
        return;
    }
    let calls: Vec<_> = with(context, |calls| of(calls, session).collect());
    for call in calls {
        refuse(context, call, sessions::NO_SESSION);
    }
    // Those behind them may have room.
    timer::soon(context);
}

/// Releases a grant of a closed session, with all its holds, and hands on the lock. Its database is selected.
pub(crate) fn release_of_session(context: Context<'_>, grant: &SessionGrant) {
    let name = OwnedText::new(&grant.lock_id.key);
    let name = name.text();
    settle_before_look(context, name);
    let mut key = LockKey::open(context, name);
    if key.is_shared() {
        key = end_leases(key).unwrap_or_else(|_ended| LockKey::open(context, name));
    }
    if let Ok(Some(holders)) = key.holders() {
        let request = Release {
            owner: grant.owner.as_owner(),
            amount: ReleaseAmount::All,
            token: Some(grant.token),
        };
        if let Ok((_, transition)) = sharing::release(Some(&holders), &request, now(context)) {
            statistics::count(Counter::Releases);
            released(context, grant.token);
            key.change(&transition, KeyspaceEvent::Release);
        }
    }
    serve(context, name, Caller::EventLoop);
}
