//! News from the server that concern those who wait: a lock may have become free, a client is gone.
//!
//! It comes in the middle of other things: nothing is done here but to mark what it is about, and
//! to ask for a round.

use super::alarm;
use super::state::{STATE, place_of};
use crate::server::{self, Context, Moment};

/// Learns of everything that may free a lock without touching its key.
pub(super) fn load(context: Context<'_>) {
    for moment in [Moment::Flushed, Moment::Swapped, Moment::Loaded] {
        server::subscribe(context, moment, mark_all);
    }
}

/// A key has lost its lock. Called in the middle of that.
pub(crate) fn lost(context: Context<'_>, database: i32, key: &[u8]) {
    let marked = STATE.if_busy(context, |state| {
        let waited_for = state.queues.waiting(database, key) > 0;
        if waited_for {
            state.marked.insert(place_of(database, key));
        }
        waited_for
    });
    if marked {
        alarm::soon(context);
    }
}

fn mark_all(context: Context<'_>) {
    let any = STATE.with(context, |state| {
        let places = state.queues.places(None);
        let any = !places.is_empty();
        state.marked.extend(places);
        any
    });
    if any {
        alarm::soon(context);
    }
}

/// Learns of what becomes of the replies to those who wait, while somebody does: it costs a little
/// at each turn of the event loop.
pub(super) fn follow_clients(context: Context<'_>) {
    let follows = STATE.with(context, |state| {
        std::mem::replace(&mut state.follows_clients, true)
    });
    if !follows {
        server::subscribe(context, Moment::Awake, landed);
        server::subscribe(context, Moment::ClientGone, crashed);
    }
}

/// Every reply that was written is sent.
fn landed(context: Context<'_>) {
    STATE.if_busy(context, |state| {
        if !state.landing.is_empty() {
            for (_, id) in state.landing.drain() {
                state.flights.arrive(id);
            }
        }
    });
}

/// A client is gone, perhaps before its reply was sent.
fn crashed(context: Context<'_>) {
    let owes = STATE.with(context, |state| {
        let lost = state
            .landing
            .remove(&context.client_id())
            .and_then(|id| state.flights.lose(id));
        let owes = lost.is_some();
        state.give_backs.extend(lost);
        owes
    });
    if owes {
        alarm::soon(context);
    }
}

/// Nobody waits, and nothing is on its way.
pub(super) fn forget_clients(context: Context<'_>) {
    let followed = STATE.with(context, |state| {
        state.landing.shrink_to_fit();
        std::mem::take(&mut state.follows_clients)
    });
    if followed {
        server::unsubscribe(context, Moment::Awake);
        server::unsubscribe(context, Moment::ClientGone);
    }
}
