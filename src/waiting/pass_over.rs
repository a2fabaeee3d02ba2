//! Passes over the calls of a session while its program may be dead or frozen.
//!
//! No lock with calls of such a session is granted until all calls of the session are updated. With many calls that
//! takes several ticks.
//!
//! The core's `sessions/presence.rs` detects that a program is away, `sessions/upper.rs` reports it to this file, and
//! the core's `calls/passed_over.rs` updates the lines.

use redis_lock_core::sessions::{Presence, SessionId};

use super::disconnect_check::polling_client_has_closed;
use super::state::STATE;
use super::timer;
use crate::locks::Slice;
use crate::server::Context;
use crate::sessions;

/// How many calls are updated between two reads of the clock.
const UPDATED_AT_ONCE: usize = 256;

/// Whether the program of a call can receive a grant.
pub(super) enum Program {
    /// The program polls its session.
    Here,
    /// The session has ended.
    Gone,
    /// The program may be dead or frozen, so its calls are passed over.
    Away,
}

/// Checks the program of the next call in line. If the program is away, all its calls are passed over from now on.
pub(super) fn program_of(context: Context<'_>, session: SessionId) -> Program {
    match sessions::check_program(context, session) {
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

/// Updates the calls of a session after its program has gone away or polls again.
pub(crate) fn session_presence_changed(context: Context<'_>, session: SessionId) {
    if STATE.if_session_waits(context, session, |state| {
        state.presence_changes.add(session);
    }) {
        update_calls(context);
        // The tick serves the locks whose line has changed.
        timer::soon(context);
    }
}

/// Continues to update the calls of sessions whose program has gone away or polls again, for one slice of time.
pub(super) fn update_calls(context: Context<'_>) {
    let slice = Slice::begin();
    while let Some((session, from)) = STATE.if_busy(context, |state| state.presence_changes.first())
    {
        let is_away = sessions::presence(context, session) == Presence::Away;
        STATE.with(context, |state| {
            let calls = &mut state.calls;
            let next = calls.pass_over(session, is_away, from, UPDATED_AT_ONCE);
            state.presence_changes.set_progress(session, next);
        });
        if slice.is_over() {
            return;
        }
    }
}
