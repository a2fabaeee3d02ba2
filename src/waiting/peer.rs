//! Whether the client of a call has closed its connection: the server is asked for its socket where the
//! event loop has stalled.
//!
//! A question may cost as much about one client as about many (docs/design.md): where many calls have
//! to be looked at, it is about many at once.

use redis_lock_core::{Map, WaiterId};

use super::state::{STATE, State};
use crate::server::{Context, Socket};

/// The most clients that one question is about.
const MAX_ASKED: usize = 128;

/// Whom to ask for: this call and others, twice as many as the last time in this iteration.
fn to_ask_for(state: &mut State, id: WaiterId, client: u64) -> Vec<(WaiterId, u64)> {
    let iteration = STATE.stalls.iteration_began();
    let most = match state.sockets.asked {
        (asked, asked_in) if asked_in == iteration => (2 * asked).min(MAX_ASKED),
        _ => 1,
    };
    state.sockets.asked = (most, iteration);
    let calls = state.handles.values().copied();
    let others = calls
        .filter(|other| *other != id && !state.sockets.known.contains_key(other))
        .filter_map(|other| {
            let waits = state.queues.get(other).map(|waiter| waiter.client_id);
            Some((other, waits.or_else(|| state.pending_grants.client(other))?))
        });
    std::iter::once((id, client))
        .chain(others)
        .take(most)
        .collect()
}

/// Whether the client of a call that waits, or whose grant is pending, has closed its connection,
/// also where the server has not read that yet. In doubt it has not.
pub(super) fn peer_is_gone(context: Context<'_>, id: WaiterId, client: u64) -> bool {
    let known = STATE.with(context, |state| state.sockets.known.get(&id).copied());
    let socket = known.or_else(|| {
        let calls = STATE.with(context, |state| to_ask_for(state, id, client));
        let clients: Vec<_> = calls.iter().map(|(_, client)| *client).collect();
        let told: Map<_, _> = context.sockets(&clients).into_iter().collect();
        let sockets = calls
            .iter()
            .filter_map(|(id, client)| Some((*id, *told.get(client)?)));
        STATE.with(context, |state| {
            state.sockets.known.extend(sockets);
            state.sockets.known.get(&id).copied()
        })
    });
    socket.is_some_and(Socket::peer_is_gone)
}
