//! Events of the server for waiting calls: a lock may have become free, a client has disconnected.
//!
//! They come while the server is in the middle of something else. So a handler only notes the event and
//! arms a tick. A disconnect of a client that is blocked for a lock arrives in `wait.rs`.

use std::time::Duration;

use super::state::{STATE, State};
use super::timer;
use crate::locks::{monotonic, now};
use crate::server::{self, Context, Listening, ServerEvent};

/// Subscribes to the events that may free a lock, or make room in it, without touching its key.
pub(super) fn load(context: Context<'_>) {
    for event in [
        ServerEvent::Flushed,
        ServerEvent::Swapped,
        ServerEvent::Loaded,
        // `lock.max-holders`, perhaps.
        ServerEvent::Configured,
    ] {
        server::subscribe(context, event, all_ready);
    }
    server::subscribe(context, ServerEvent::RoleChanged, role_changed);
}

/// All sessions have ended when the server stops being primary. It may be primary again before the next tick.
fn role_changed(context: Context<'_>) {
    if context.flags().replica() {
        STATE.if_busy(context, |state| {
            state.ended_sessions = state.calls.sessions().collect();
        });
    }
}

/// A key has lost its lock. Called while the server removes it.
pub(crate) fn lock_lost(context: Context<'_>, database: i32, key: &[u8]) {
    if STATE.if_busy(context, |state| state.calls.make_ready(database, key)) {
        timer::soon(context);
    }
}

fn all_ready(context: Context<'_>) {
    if STATE.if_busy(context, |state| state.calls.make_all_ready()) {
        timer::soon(context);
    }
}

/// Subscribes to the events about waiting clients and their replies. Iterations of the event loop are
/// followed only while somebody waits, since each then costs a little.
pub(super) fn follow_clients(context: Context<'_>) {
    let (iterations, clients) = STATE.with(context, |state| {
        let iterations = std::mem::replace(&mut state.follows_iterations, true);
        let clients = std::mem::replace(&mut state.follows_clients, true);
        (iterations, clients)
    });
    if !iterations {
        STATE.stalls.restart(monotonic());
        server::subscribe(context, ServerEvent::LoopIteration, next_iteration);
    }
    if !clients {
        server::subscribe(
            context,
            ServerEvent::ClientDisconnected,
            client_disconnected,
        );
    }
}

fn next_iteration(context: Context<'_>) {
    let now_monotonic = monotonic();
    if STATE.stalls.is_paused() {
        STATE
            .stalls
            .set_paused(now_monotonic, context.writes_paused());
    }
    STATE
        .stalls
        .next_iteration(now_monotonic, || has_connections(context));
    STATE.with(context, |state| {
        if !STATE.stalls.is_catching_up(now_monotonic) {
            state.listening = None;
        }
        state.calls.replies_sent(|| now(context));
    });
}

/// True when a connection is to be accepted.
fn has_connections(context: Context<'_>) -> bool {
    STATE.with(context, |state| {
        let listening = state.listening.get_or_insert_with(Listening::find);
        listening.has_connections()
    })
}

/// How many queries about disconnected clients are made in a [`QUERY_PERIOD`]: on a server with many
/// clients a query is slow.
const MAX_QUERIES: u32 = 16;
const QUERY_PERIOD: Duration = Duration::from_millis(10);

/// A client has disconnected, perhaps before its reply was sent.
fn client_disconnected(context: Context<'_>) {
    let client = context.client_id();
    let asks = STATE.with(context, |state| {
        state.polling_sockets.remove(&client);
        state.calls.client_closed(client) && may_query(state)
    });
    let is_unsent = asks && context.reply_is_unsent(client, "lock.acquire");
    let is_ready = STATE.with(context, |state| {
        if is_unsent {
            state.calls.reply_is_unsent(client);
        } else {
            state.calls.forget_sent(client);
        }
        state.calls.ready_len() > 0
    });
    if is_ready {
        timer::soon(context);
    }
}

fn may_query(state: &mut State) -> bool {
    let now = monotonic();
    let (made, began) = &mut state.reply_queries;
    if now.since(*began) >= QUERY_PERIOD {
        (*made, *began) = (0, now);
    }
    *made += 1;
    *made <= MAX_QUERIES
}

/// Unsubscribes when nobody waits and no grant is pending.
pub(super) fn unfollow_iterations(context: Context<'_>) {
    if STATE.with(context, |state| {
        std::mem::take(&mut state.follows_iterations)
    }) {
        server::unsubscribe(context, ServerEvent::LoopIteration, next_iteration);
    }
}
