//! The waiting calls of each session.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use redis_lock_core::sessions::SessionId;
use redis_lock_core::{Map, WaiterId, shrink_if_sparse};

use crate::server::{Context, GilCell};
use crate::sessions::Membership;

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
    session_of(context, call).map_or(Membership::Stays, Membership::JoinsAfterWait)
}

/// The calls of a session that wait.
pub(super) fn calls_of(context: Context<'_>, session: SessionId) -> Vec<WaiterId> {
    if !ANY.load(Ordering::Relaxed) {
        return Vec::new();
    }
    with(context, |calls| {
        let from = calls.calls.range((session, WaiterId::FIRST)..);
        let of_session = from.take_while(|(of, _)| *of == session);
        of_session.map(|(_, call)| *call).collect()
    })
}

/// How many calls of a session wait.
pub(crate) fn waiting_of(context: Context<'_>, session: SessionId) -> usize {
    calls_of(context, session).len()
}
