//! The connection that polls a session, and how a newer one takes over.

use crate::support::{Session, count, run};
use testbed::{Expect, Server, Talk, cmd, eventually};

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
fn a_newer_connection_takes_over_and_the_older_one_never_gets_it_back() {
    let server = Server::start();
    let (mut older, mut newer) = two(&server);
    let mut c = server.connection();
    older.poll();
    newer.poll();
    let newer_id = cmd!(*newer, "CLIENT", "ID").int();
    assert_eq!(older.client_id(&mut c), newer_id);
    for words in ["LOCK.SESSION POLL ID", "LOCK.SESSION POLL ID BLOCK 60000"] {
        let text = older.run(words).refused("UNBLOCKED");
        assert!(text.contains("newer connection"), "{text}");
    }
    newer.poll();
    // Also when the newer one has closed.
    drop(newer);
    eventually(|| count(&server, "sessions_detached") == 1, "the close");
    older.run("LOCK.SESSION POLL ID").refused("UNBLOCKED");
    assert_eq!(older.client_id(&mut c), 0);
    // All else it may do.
    older.run("LOCK.ACQUIRE k a SESSION ID").grant();
    let mut third = Session {
        id: older.id,
        connection: server.connection(),
    };
    assert_eq!(third.poll().grants, 1);
    older.run("LOCK.SESSION CLOSE ID").int();
    older.run("LOCK.SESSION POLL ID").refused("NOSESSION");
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
    let server = Server::start();
    let mut c = server.connection();
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
