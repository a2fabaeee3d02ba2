//! The connection that polls a session, and how a newer one takes over.

use testbed::{Expect, Server, Session, Talk, cmd, run, started};

#[test]
fn the_older_connections_waiting_poll_is_ended() {
    let server = Server::start();
    let mut older = Session::open(&server);
    let mut newer = Session::again(older.id, &server);
    let mut c = server.connection();
    older.stay(&server);
    newer.poll();
    older.connection.receive().refused("UNBLOCKED");
    older.run("LOCK.SESSION POLL ID").refused("UNBLOCKED");
    newer.stay(&server);
    let mut third = Session::again(older.id, &server);
    third.stay(&server);
    newer.connection.receive().refused("UNBLOCKED");
    older.acquire("k a");
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
    let id = session.leave(&server);
    run(&mut c, &words).refused("UNBLOCKED");
    let mut newer = Session::again(id, &server);
    newer.poll();
}
