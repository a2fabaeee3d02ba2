//! Events of the server that concern waiting calls: a lock may have become free, a client is gone.
//!
//! They come in the middle of other things: nothing is done here but to note what they are about, and
//! to ask for a tick.

use std::time::Duration;

use redis_lock_core::{LockId, UnconfirmedGrant};

use super::state::{STATE, State};
use super::timer;
use crate::locks::monotonic;
use crate::server::{self, Context, ServerEvent};

/// Learns of everything that may free a lock without touching its key.
pub(super) fn load(context: Context<'_>) {
    for event in [
        ServerEvent::Flushed,
        ServerEvent::Swapped,
        ServerEvent::Loaded,
    ] {
        server::subscribe(context, event, all_maybe_free);
    }
}

/// A key has lost its lock. Called in the middle of that.
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

/// Learns of what becomes of those who wait and of the replies to them. The iterations of the event loop
/// are followed while somebody waits: that costs a little at each.
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
        server::subscribe(context, ServerEvent::ClientGone, client_gone);
    }
}

fn next_iteration(context: Context<'_>) {
    STATE.stalls.next_iteration(monotonic());
    STATE.replies_sent(context);
}

/// How many clients that are gone the server is asked about in a [`QUERY_PERIOD`]: where it has many
/// clients, each query takes it long.
const MAX_QUERIES: u32 = 16;
const QUERY_PERIOD: Duration = Duration::from_millis(10);

/// A client is gone, perhaps before its reply was sent.
fn client_gone(context: Context<'_>) {
    let client = context.client_id();
    let (owes, unconfirmed) = STATE.with(context, |state| {
        let written = state.written.remove(&client);
        let owes = written.is_some_and(|id| state.abandon(id));
        let unconfirmed = state.unconfirmed.remove(&client);
        (owes, unconfirmed.filter(|_| may_query(state)))
    });
    let unsent = unconfirmed.filter(|_| context.reply_is_unsent(client, "lock.acquire"));
    if owes || unsent.is_some() {
        let unsent = unsent.map(UnconfirmedGrant::into_give_back);
        STATE.with(context, |state| state.give_backs.extend(unsent));
        timer::soon(context);
    }
}

fn may_query(state: &mut State) -> bool {
    let now = monotonic();
    let (asked, since) = &mut state.queries;
    if now.since(*since) >= QUERY_PERIOD {
        (*asked, *since) = (0, now);
    }
    *asked += 1;
    *asked <= MAX_QUERIES
}

/// Nobody waits, and no grant is pending.
pub(super) fn unfollow_iterations(context: Context<'_>) {
    let followed = STATE.with(context, |state| {
        state.written.shrink_to_fit();
        state.sockets.clear();
        std::mem::take(&mut state.follows_iterations)
    });
    if followed {
        server::unsubscribe(context, ServerEvent::LoopIteration);
    }
}
