//! Calls of sessions: they are passed over while their program may be dead or frozen.
//!
//! All calls of a session are updated before any of their locks is granted. With many calls that takes several ticks.
//!
//! The core's `sessions/presence.rs` finds that a program is away, `sessions/upper.rs` reports it to this file, and the
//! core's `calls/passed_over.rs` updates the lines.

use redis_lock_core::sessions::{Presence, SessionId};

use super::disconnect_check::polling_client_has_closed;
use super::state::STATE;
use super::timer;
use crate::locks::Slice;
use crate::server::Context;
use crate::sessions;

/// How many calls are updated between two looks at the clock.
const UPDATED_AT_ONCE: usize = 256;

/// Whether the program of a call may get a lock.
pub(super) enum Program {
    /// It may.
    Here,
    /// Its session has ended.
    Gone,
    /// Its calls are passed over now.
    Away,
}

/// Looks at the program of a call whose turn it is, and has its calls passed over if it is away.
pub(super) fn program_of(context: Context<'_>, session: SessionId) -> Program {
    match sessions::look_at_program(context, session) {
        Presence::Ended => Program::Gone,
        Presence::Here(client) if !polling_client_has_closed(context, session, client) => {
            Program::Here
        }
        Presence::Here(client) => {
            sessions::polling_client_closes(context, client);
            Program::Away
        }
        Presence::Away => {
            session_presence_changed(context, session);
            Program::Away
        }
    }
}

/// The program of a session has disconnected or frozen, so its calls are passed over from now on; or it polls again.
pub(crate) fn session_presence_changed(context: Context<'_>, session: SessionId) {
    if STATE.if_session_waits(context, session, |state| {
        state.presence_changes.add(session);
    }) {
        update_calls(context);
        // The locks whose line has changed are served from the event loop.
        timer::soon(context);
    }
}

/// Updates the calls of the sessions whose program is away now, or polls again, as far as the time allows.
pub(super) fn update_calls(context: Context<'_>) {
    let slice = Slice::begin();
    while let Some((session, from)) = STATE.if_busy(context, |state| state.presence_changes.first())
    {
        let is_away = sessions::presence(context, session) == Presence::Away;
        STATE.with(context, |state| {
            let calls = &mut state.calls;
            let next = calls.pass_over(session, is_away, from, UPDATED_AT_ONCE);
            state.presence_changes.go_on(session, next);
        });
        if slice.is_over() {
            return;
        }
    }
}
