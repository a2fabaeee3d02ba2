//! News from the server that concern those who wait: a lock may have become free, a client is gone.
//!
//! It comes in the middle of other things: nothing is done here but to mark what it is about, and
//! to ask for a round.

use std::time::Duration;

use redis_lock_core::Told;

use super::alarm;
use super::state::{STATE, State, place_of};
use crate::locks::monotonic;
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

/// Learns of what becomes of those who wait and of the replies to them. The turns of the event loop are
/// followed while somebody waits: that costs a little at each turn.
pub(super) fn follow_clients(context: Context<'_>) {
    let (turns, clients) = STATE.with(context, |state| {
        let turns = std::mem::replace(&mut state.follows_turns, true);
        let clients = std::mem::replace(&mut state.follows_clients, true);
        (turns, clients)
    });
    if !turns {
        STATE.turns.begin(monotonic());
        server::subscribe(context, Moment::Awake, next_turn);
    }
    if !clients {
        server::subscribe(context, Moment::ClientGone, gone);
    }
}

fn next_turn(context: Context<'_>) {
    STATE.turns.next(monotonic());
    STATE.land(context);
}

/// How many clients that are gone the server is asked about in [`A_WHILE`]: where it has many clients,
/// each question takes it long.
const QUESTIONS: u32 = 16;
const A_WHILE: Duration = Duration::from_millis(10);

/// A client is gone, perhaps before its reply was sent.
fn gone(context: Context<'_>) {
    let client = context.client_id();
    let (owes, told) = STATE.with(context, |state| {
        let landing = state.landing.remove(&client);
        let owes = landing.is_some_and(|id| state.lose(id));
        let told = state.told.remove(&client);
        (owes, told.filter(|_| may_ask(state)))
    });
    let unsent = told.filter(|_| context.reply_is_unsent(client, "lock.acquire"));
    if owes || unsent.is_some() {
        let unsent = unsent.map(Told::unsent);
        STATE.with(context, |state| state.give_backs.extend(unsent));
        alarm::soon(context);
    }
}

fn may_ask(state: &mut State) -> bool {
    let now = monotonic();
    let (asked, since) = &mut state.questions;
    if now.since(*since) >= A_WHILE {
        (*asked, *since) = (0, now);
    }
    *asked += 1;
    *asked <= QUESTIONS
}

/// Nobody waits, and nothing is on its way.
pub(super) fn forget_turns(context: Context<'_>) {
    let followed = STATE.with(context, |state| {
        state.landing.shrink_to_fit();
        state.sockets.clear();
        std::mem::take(&mut state.follows_turns)
    });
    if followed {
        server::unsubscribe(context, Moment::Awake);
    }
}
