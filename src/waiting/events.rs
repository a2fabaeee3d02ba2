//! Handles server events that concern waiting calls: a lock may have become free, or a client has disconnected.
//!
//! The server raises these events in the middle of other work, when the module must not change keys. So a handler only
//! records the event and arms a tick. `wait.rs` handles the disconnect of a client that is blocked for a lock.

use std::time::Duration;

use super::state::{STATE, State};
use super::timer;
use crate::locks::{monotonic, now};
use crate::server::{self, Context, Listening, ServerEvent};

/// Subscribes to the events that can free a lock, or make room in it, without an event for its key.
pub(super) fn load(context: Context<'_>) {
    for event in [
        ServerEvent::Flushed,
        ServerEvent::Swapped,
        ServerEvent::Loaded,
        // A higher `lock.max-holders` makes room.
        ServerEvent::Configured,
    ] {
        server::subscribe(context, event, all_ready);
    }
    server::subscribe(context, ServerEvent::RoleChanged, role_changed);
}

/// All sessions end when the server becomes a replica. Record them now, because the server may be a primary again
/// before the next tick.
fn role_changed(context: Context<'_>) {
    if context.flags().replica() {
        STATE.if_busy(context, |state| {
            state.ended_sessions = state.calls.sessions().collect();
        });
    }
}

/// Marks a lock as ready, because its key is gone. The server may call this while it is still removing the key.
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

/// Subscribes to the events about waiting clients and their replies. The module follows the iterations of the event
/// loop only while calls wait or grants are pending, because each iteration then costs a little.
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

/// Returns true if the server has connections to accept.
fn has_connections(context: Context<'_>) -> bool {
    STATE.with(context, |state| {
        let listening = state.listening.get_or_insert_with(Listening::find);
        listening.has_connections()
    })
}

/// The most queries about disconnected clients in a [`QUERY_PERIOD`]. On a server with many clients a query is slow.
const MAX_QUERIES: u32 = 16;
const QUERY_PERIOD: Duration = Duration::from_millis(10);

/// Handles the disconnect of a client, whose last reply may be unsent.
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

/// Stops following the iterations of the event loop.
pub(super) fn unfollow_iterations(context: Context<'_>) {
    if STATE.with(context, |state| {
        std::mem::take(&mut state.follows_iterations)
    }) {
        server::unsubscribe(context, ServerEvent::LoopIteration, next_iteration);
    }
}
