//! Calls of sessions: they are passed over while their program may be dead or frozen.
//!
//! All calls of a session are moved before any lock is granted to anybody; with many of them that takes several
//! ticks. After a long stall nobody is passed over until the server has read what had reached it.

use std::collections::BTreeSet;

use redis_lock_core::CallId;
use redis_lock_core::sessions::{Presence, SessionId};

use super::disconnect_check::polling_client_has_closed;
use super::slice::Slice;
use super::state::STATE;
use super::timer;
use crate::locks::monotonic;
use crate::server::Context;
use crate::sessions;

/// How many calls are moved between two looks at the clock.
const MOVED_AT_ONCE: usize = 256;

/// The sessions whose calls are to be moved.
#[derive(Default)]
pub(super) struct Moves {
    /// Those that went away in or after a long stall: they wait until the server has caught up.
    later: Vec<SessionId>,
    /// The others.
    now: BTreeSet<SessionId>,
    /// One of them, some of whose calls are moved already: the call to go on with.
    next: Option<(SessionId, CallId)>,
}

impl Moves {
    /// True while calls are being moved: no lock has an order then.
    pub(super) fn are_under_way(&self) -> bool {
        !self.now.is_empty()
    }

    /// True while programs are away whose calls are not passed over yet.
    pub(super) const fn are_put_off(&self) -> bool {
        !self.later.is_empty()
    }

    /// The calls of this session are to be moved from the beginning.
    fn add(&mut self, session: SessionId) {
        self.next.take_if(|(moving, _)| *moving == session);
        self.now.insert(session);
    }
}

/// Whether the program of a call may get a lock.
pub(super) enum Program {
    /// It may.
    Here,
    /// Its session has ended.
    Gone,
    /// Its calls are passed over now.
    PassedOver,
    /// It seems to be away, and the server has not read everything yet.
    Unknown,
}

/// Looks at the program of a call whose turn it is, and has its calls passed over if it is away.
pub(super) fn program_of(context: Context<'_>, session: SessionId) -> Program {
    let now = monotonic();
    let client = match sessions::presence(context, session) {
        Presence::Ended => return Program::Gone,
        Presence::Away => None,
        Presence::Here(client) => Some(client),
    };
    if let Some(client) = client
        && !(STATE.stalls.is_stalled(now) && polling_client_has_closed(context, client))
    {
        return Program::Here;
    }
    if STATE.stalls.is_catching_up(now) {
        return Program::Unknown;
    }
    if let Some(client) = client {
        sessions::polling_client_closes(context, client);
    } else {
        session_moves(context, session);
    }
    Program::PassedOver
}

/// A session has gone away: its calls are passed over from now on.
pub(crate) fn session_away(context: Context<'_>, session: SessionId) {
    if STATE.stalls.is_catching_up(monotonic()) {
        let has_calls = STATE.if_busy(context, |state| {
            let has_calls = state.calls.of_session(session).next().is_some();
            if has_calls {
                state.moves.later.push(session);
            }
            has_calls
        });
        if has_calls {
            timer::soon(context);
        }
    } else {
        session_moves(context, session);
    }
}

/// A session has come back: its calls are passed over no longer.
pub(crate) fn session_back(context: Context<'_>, session: SessionId) {
    session_moves(context, session);
}

fn session_moves(context: Context<'_>, session: SessionId) {
    let has_calls = STATE.if_busy(context, |state| {
        let has_calls = state.calls.of_session(session).next().is_some();
        if has_calls {
            state.moves.add(session);
        }
        has_calls
    });
    if has_calls {
        move_calls(context);
        // The locks whose line has changed are served from the event loop.
        timer::soon(context);
    }
}

/// In a tick: goes on with what is to be moved.
pub(super) fn go_on(context: Context<'_>) {
    if !STATE.stalls.is_catching_up(monotonic()) {
        STATE.if_busy(context, |state| {
            for session in std::mem::take(&mut state.moves.later) {
                state.moves.add(session);
            }
        });
    }
    move_calls(context);
}

/// Moves the calls of the sessions that went away or came back, as far as the time allows.
fn move_calls(context: Context<'_>) {
    let slice = Slice::begin();
    while let Some(session) = STATE.if_busy(context, |state| state.moves.now.first().copied()) {
        let is_away = matches!(sessions::presence(context, session), Presence::Away);
        STATE.with(context, |state| {
            let moves = &mut state.moves;
            let from = moves.next.filter(|(moving, _)| *moving == session);
            let from = from.map(|(_, call)| call);
            let next = state.calls.pass_over(session, is_away, from, MOVED_AT_ONCE);
            moves.next = next.map(|call| (session, call));
            if next.is_none() {
                moves.now.remove(&session);
            }
        });
        if slice.is_over() {
            return;
        }
    }
}
