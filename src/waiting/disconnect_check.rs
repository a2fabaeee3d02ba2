//! Asks a client's socket whether the client has disconnected.
//!
//! Normally the server reports disconnects (`wait.rs`, `events.rs`), but after a stall of the event loop it may not
//! have noticed them yet.
//!
//! Only the server knows which socket belongs to a client. Asking it about one client can cost as much as asking about
//! many (`docs/server-api.md`), so each further query in an iteration asks about twice as many clients.

use redis_lock_core::sessions::SessionId;
use redis_lock_core::{Call, CallId, Map, Monotonic};

use super::state::{Client, STATE, State};
use crate::server::{Context, Socket};
use crate::sessions;

/// The most clients in one query.
const MAX_CLIENTS: usize = 128;

/// Bounds the search for clients to add to a query: at most this many calls in the same line, this many other calls,
/// and this many sessions.
const MAX_LOOKS: usize = 1024;

/// How many clients the next query asks about: one, or twice as many as the last query of this iteration.
fn next_count(last: &mut (usize, Monotonic)) -> usize {
    let iteration = STATE.stalls.iteration_began();
    let count = match *last {
        (count, its_iteration) if its_iteration == iteration => (2 * count).min(MAX_CLIENTS),
        _ => 1,
    };
    *last = (count, iteration);
    count
}

/// Chooses the clients to query: the client of this call, and others that will probably be asked about next. For a
/// waiting call those are the calls behind it in line, then the granted calls and other lines.
fn clients_to_query(state: &mut State, id: CallId) -> Vec<u64> {
    let count = next_count(&mut state.socket_query);
    let calls = &state.calls;
    let waiting = calls.get(id).filter(|call| call.is_waiting());
    let line = waiting.map(|call| &call.lock_id);
    let in_line = line.into_iter().flat_map(|lock_id| {
        let line = calls.iter(lock_id.database, &lock_id.key);
        line.map(|(other, _)| other).take(MAX_LOOKS)
    });
    let elsewhere = calls.blocked().take(MAX_LOOKS).filter(|other| {
        let call = calls.get(*other);
        call.is_some_and(|call| !call.is_waiting() || Some(&call.lock_id) != line)
    });
    let others = in_line.chain(elsewhere);
    let others = others.filter(|other| *other != id);
    let unknown = |call: &&Call<Client>| call.attached.socket.is_none();
    let others = others.filter_map(|other| calls.get(other)).filter(unknown);
    let all = calls.get(id).into_iter().chain(others);
    all.filter_map(|call| call.waiter.client_id)
        .take(count)
        .collect()
}

/// Returns true if a blocked client has closed its connection, even if the server has not read that yet. Returns false
/// if in doubt.
pub(super) fn has_disconnected(context: Context<'_>, client: u64) -> bool {
    let query = STATE.with(context, |state| {
        let id = state.calls.blocked_by(client)?;
        match state.calls.get(id)?.attached.socket {
            Some(socket) => Some(Ok(socket)),
            None => Some(Err(clients_to_query(state, id))),
        }
    });
    let socket = match query {
        None => None,
        Some(Ok(socket)) => Some(socket),
        Some(Err(clients)) => {
            let sockets: Map<_, _> = context.sockets(&clients).into_iter().collect();
            STATE.with(context, |state| {
                for (client, socket) in &sockets {
                    let id = state.calls.blocked_by(*client);
                    if let Some(client) = id.and_then(|id| state.calls.attached_mut(id)) {
                        client.socket = Some(*socket);
                    }
                }
            });
            sockets.get(&client).copied()
        }
    };
    socket.is_some_and(Socket::peer_has_closed)
}

/// Like [`has_disconnected`], but for the client that polls a session.
pub(super) fn polling_client_has_closed(
    context: Context<'_>,
    session: SessionId,
    client: u64,
) -> bool {
    let known = STATE.with(context, |state| state.polling_sockets.get(&client).copied());
    let socket = known.or_else(|| {
        let clients = polling_clients_to_query(context, session);
        let sockets = context.sockets(&clients);
        STATE.with(context, |state| {
            state.polling_sockets.extend(sockets);
            state.polling_sockets.get(&client).copied()
        })
    });
    socket.is_some_and(Socket::peer_has_closed)
}

/// Chooses the clients to query: the one that polls this session, and those that poll other sessions with waiting
/// calls.
fn polling_clients_to_query(context: Context<'_>, session: SessionId) -> Vec<u64> {
    let (count, sessions) = STATE.with(context, |state| {
        let sessions = state.calls.sessions_from(session).take(MAX_LOOKS);
        let sessions: Vec<_> = sessions.collect();
        (next_count(&mut state.polling_query), sessions)
    });
    let clients = sessions.into_iter();
    let clients = clients.filter_map(|session| sessions::polling_client(context, session));
    STATE.with(context, |state| {
        let known = &state.polling_sockets;
        let unknown = clients.filter(|client| !known.contains_key(client));
        unknown.take(count).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_waiter;
    use super::*;

    fn wait(state: &mut State, client_id: Option<u64>) -> CallId {
        let waiter = test_waiter(None, client_id);
        state.calls.join(0, b"lock", waiter, Client::default())
    }

    /// The size of the largest query for the first call in a line whose next `queued` calls have no client.
    fn queried(queued: usize) -> usize {
        let mut state = State {
            socket_query: (1, STATE.stalls.iteration_began()),
            ..State::default()
        };
        let first = wait(&mut state, Some(1));
        for _ in 0..queued {
            wait(&mut state, None);
        }
        for client in 2..=1000 {
            wait(&mut state, Some(client));
        }
        let queries = (0..10).map(|_| clients_to_query(&mut state, first).len());
        queries.max().unwrap_or(0)
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn a_query_asks_for_the_clients_that_are_next_in_line() {
        assert_eq!(queried(0), MAX_CLIENTS);
        assert_eq!(queried(100), MAX_CLIENTS);
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn the_search_for_clients_in_a_long_line_is_bounded() {
        assert_eq!(queried(MAX_LOOKS), 1);
    }
}
