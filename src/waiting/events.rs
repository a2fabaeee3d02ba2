//! Events of the server for waiting calls: a lock may have become free, a client has disconnected.
//!
//! They come while the server is in the middle of something else. So a handler only notes the event and
//! arms a tick.

use std::time::Duration;

use redis_lock_core::{LockId, UnconfirmedGrant};

use super::state::{STATE, State};
use super::timer;
use crate::locks::monotonic;
use crate::server::{self, Context, ServerEvent};

/// Subscribes to the events that may free a lock, or make room in it, without touching its key.
pub(super) fn load(context: Context<'_>) {
    for event in [
        ServerEvent::Flushed,
        ServerEvent::Swapped,
        ServerEvent::Loaded,
        // `lock.max-holders`, perhaps.
        ServerEvent::Configured,
    ] {
        server::subscribe(context, event, all_maybe_free);
    }
}

/// A key has lost its lock. Called while the server removes it.
pub(crate) fn lock_lost(context: Context<'_>, database: i32, key: &[u8]) {
    let waited_for = STATE.if_busy(context, |state| {
        let waited_for = state.queues.waiting(database, key) > 0;
        if waited_for {
            state.maybe_free.insert(LockId::new(database, key));
        }
        waited_for
    });
    if waited_for {
        timer::soon(context);
    }
}

fn all_maybe_free(context: Context<'_>) {
    let any = STATE.with(context, |state| {
        let lock_ids = state.queues.lock_ids(None);
        let any = !lock_ids.is_empty();
        state.maybe_free.extend(lock_ids);
        any
    });
    if any {
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
    STATE.stalls.next_iteration(monotonic());
    STATE.replies_sent(context);
}

/// How many queries about disconnected clients are made in a [`QUERY_PERIOD`]: on a server with many
/// clients a query is slow.
const MAX_QUERIES: u32 = 16;
const QUERY_PERIOD: Duration = Duration::from_millis(10);

/// A client has disconnected, perhaps before its reply was sent.
fn client_disconnected(context: Context<'_>) {
    let client = context.client_id();
    let (was_pending, unconfirmed) = STATE.with(context, |state| {
        let written = state.written.remove(&client);
        let was_pending = written.is_some_and(|id| state.abandon(id));
        let unconfirmed = state.unconfirmed.remove(&client);
        (was_pending, unconfirmed.filter(|_| may_query(state)))
    });
    let unsent = unconfirmed.filter(|_| context.reply_is_unsent(client, "lock.acquire"));
    if was_pending || unsent.is_some() {
        let unsent = unsent.map(UnconfirmedGrant::into_give_back);
        STATE.with(context, |state| state.give_backs.extend(unsent));
        timer::soon(context);
    }
}

fn may_query(state: &mut State) -> bool {
    let now = monotonic();
    let (made, began) = &mut state.queries;
    if now.since(*began) >= QUERY_PERIOD {
        (*made, *began) = (0, now);
    }
    *made += 1;
    *made <= MAX_QUERIES
}

/// Unsubscribes when nobody waits and no grant is pending.
pub(super) fn unfollow_iterations(context: Context<'_>) {
    let followed = STATE.with(context, |state| {
        state.written.shrink_to_fit();
        state.sockets.clear();
        std::mem::take(&mut state.follows_iterations)
    });
    if followed {
        server::unsubscribe(context, ServerEvent::LoopIteration, next_iteration);
    }
}
