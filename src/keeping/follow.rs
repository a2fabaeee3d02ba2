//! Which events are followed: all of them only while something is kept.

use super::close::{close_sent, close_unsent};
use super::events::client_disconnected;
use super::state::{STATE, Timeout};
use super::work;
use crate::server::{self, Context, ServerEvent};

/// A connection begins to keep a grant.
pub(super) fn begin(context: Context<'_>) {
    note_timeout(context);
    follow(context);
    let follows = STATE.with(context, |state| {
        std::mem::replace(&mut state.follows.clients, true)
    });
    if !follows {
        server::subscribe(
            context,
            ServerEvent::ClientDisconnected,
            client_disconnected,
        );
    }
}

/// Follows the iterations of the event loop while there is anything to do in them.
fn follow(context: Context<'_>) {
    let follows = STATE.with(context, |state| {
        std::mem::replace(&mut state.follows.iterations, true)
    });
    if !follows {
        server::subscribe(context, ServerEvent::LoopIteration, iteration_begins);
        server::subscribe(context, ServerEvent::LoopIterationEnds, iteration_ends);
    }
}

/// Ten times a second: the iterations are followed no more when nothing is kept.
pub(super) fn cron(context: Context<'_>) {
    let idle = STATE.with(context, |state| {
        state.is_idle() && std::mem::take(&mut state.follows.iterations)
    });
    if idle {
        server::unsubscribe(context, ServerEvent::LoopIteration, iteration_begins);
        server::unsubscribe(context, ServerEvent::LoopIterationEnds, iteration_ends);
    }
}

fn iteration_begins(context: Context<'_>) {
    if STATE.is_busy() {
        close_sent(context);
        work::work(context);
    }
}

fn iteration_ends(context: Context<'_>) {
    if STATE.is_busy() {
        work::end_leases(context);
        close_unsent(context);
    }
}

/// Settings of the server were changed: its `timeout`, perhaps.
pub(super) fn settings_changed(context: Context<'_>) {
    STATE.with(context, |state| {
        if state.timeout == Timeout::Off {
            state.timeout = Timeout::Unknown;
        }
    });
}

/// Notes the first `KEEP` in the log, where the server closes quiet connections itself.
fn note_timeout(context: Context<'_>) {
    if STATE.with(context, |state| state.timeout) != Timeout::Unknown {
        return;
    }
    let timeout = context.setting(c"timeout").filter(|timeout| timeout != "0");
    let known = if timeout.is_some() {
        Timeout::Noted
    } else {
        Timeout::Off
    };
    STATE.with(context, |state| state.timeout = known);
    if let Some(timeout) = timeout {
        server::warn(&format!(
            "the server's timeout of {timeout} s closes quiet connections, those that keep leases too: \
             set it to 0, or let the clients send a command more often"
        ));
    }
}
