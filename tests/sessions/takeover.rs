//! The connection that polls a session, and how a newer one takes over.

use crate::support::{Session, count, run};
use testbed::{Expect, Server, Talk, cmd, eventually, started};

/// The connections of a session, the older one first.
fn two(server: &Server) -> (Session, Session) {
    let older = Session::open(server);
    let newer = Session {
        id: older.id,
        connection: server.connection(),
    };
    (older, newer)
}

#[test]
fn the_older_connections_waiting_poll_is_ended() {
    let server = Server::start();
    let (mut older, mut newer) = two(&server);
    let mut c = server.connection();
    older.wait_in_poll(&server, 60_000);
    newer.poll();
    older.connection.receive().refused("UNBLOCKED");
    older.run("LOCK.SESSION POLL ID").refused("UNBLOCKED");
    newer.wait_in_poll(&server, 60_000);
    let mut third = Session {
        id: older.id,
        connection: server.connection(),
    };
    third.wait_in_poll(&server, 60_000);
    newer.connection.receive().refused("UNBLOCKED");
    older.run("LOCK.ACQUIRE k a SESSION ID").grant();
    run(&mut c, "DEL k").int();
    assert_eq!(third.polled().events.len(), 1);
}

#[test]
fn the_connection_that_opens_polls_at_first() {
    let (server, mut c) = started();
    let mut opener = server.connection();
    let opener_id = cmd!(opener, "CLIENT", "ID").int();
    let session = Session::open_on(opener, "");
    assert_eq!(session.client_id(&mut c), opener_id);
    // An older one must not take over.
    let words = session.line("LOCK.SESSION POLL ID");
    run(&mut c, &words).refused("UNBLOCKED");
    let id = session.id;
    drop(session);
    eventually(|| count(&server, "sessions_detached") == 1, "the close");
    run(&mut c, &words).refused("UNBLOCKED");
    let mut newer = Session {
        id,
        connection: server.connection(),
    };
    newer.poll();
}
