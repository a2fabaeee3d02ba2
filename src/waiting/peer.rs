//! Whether a client has closed its connection, asked of its socket after a stall of the event loop.
//!
//! The server names the socket. A query may cost as much for one client as for many
//! (`docs/design.md`), so a query that follows another asks for more clients at once.

use redis_lock_core::{Map, WaiterId};

use super::state::{STATE, State};
use crate::server::{Context, Socket};

/// The most clients in one query.
const MAX_CLIENTS: usize = 128;

/// The calls to query: this one and others, twice as many as in the last query of this iteration. Those that
/// are next come first: of a call that waits, the others in its line; else the other pending grants.
fn calls_to_query(state: &mut State, id: WaiterId, client: u64) -> Vec<(WaiterId, u64)> {
    let iteration = STATE.stalls.iteration_began();
    let count = match state.sockets.last_query {
        (count, its_iteration) if its_iteration == iteration => (2 * count).min(MAX_CLIENTS),
        _ => 1,
    };
    state.sockets.last_query = (count, iteration);
    let lock_id = state.queues.lock_of(id);
    let in_line = lock_id.into_iter().flat_map(|lock_id| {
        let line = state.queues.iter(lock_id.database, &lock_id.key);
        line.map(|(other, waiter)| (other, waiter.client_id))
    });
    let pending = state.pending_grants.clients();
    let pending = pending.filter(|(_, client)| !state.written.contains_key(client));
    let elsewhere = state.handles.values().filter_map(|other| {
        let waiter = state.queues.get(*other)?;
        (state.queues.lock_of(*other) != lock_id).then_some((*other, waiter.client_id))
    });
    let unknown =
        |(other, _): &(WaiterId, u64)| *other != id && !state.sockets.known.contains_key(other);
    std::iter::once((id, client))
        .chain(in_line.chain(pending).chain(elsewhere).filter(unknown))
        .take(count)
        .collect()
}

/// True when the client of a waiting call or a pending grant has closed its connection, also when the
/// server has not read that yet. In doubt false.
pub(super) fn peer_has_closed(context: Context<'_>, id: WaiterId, client: u64) -> bool {
    let known = STATE.with(context, |state| state.sockets.known.get(&id).copied());
    let socket = known.or_else(|| {
        let calls = STATE.with(context, |state| calls_to_query(state, id, client));
        let clients: Vec<_> = calls.iter().map(|(_, client)| *client).collect();
        let by_client: Map<_, _> = context.sockets(&clients).into_iter().collect();
        let sockets = calls
            .iter()
            .filter_map(|(id, client)| Some((*id, *by_client.get(client)?)));
        STATE.with(context, |state| {
            state.sockets.known.extend(sockets);
            state.sockets.known.get(&id).copied()
        })
    });
    socket.is_some_and(Socket::peer_has_closed)
}
