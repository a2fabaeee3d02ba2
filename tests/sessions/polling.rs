//! POLL: what is answered, what is acknowledged, when a wait ends, and how a newer connection takes over.

use std::time::Duration;
use testbed::{
    Expect, Server, Session, Talk, cmd, is_blocked, line, polled, run, started, timed, unblocks,
};

#[test]
fn a_waiting_poll_is_answered_at_once() {
    let (server, mut c, mut session) = Session::opened();
    let token = session.acquire("k a PX 600000").token;
    session.stay(&server);
    let (took, polled) = timed(|| {
        run(&mut c, "DEL k").int();
        session.polled()
    });
    assert_eq!(polled.events, [format!("1 lost k a {token} deleted")]);
    assert_eq!((polled.sure_ms, polled.grants), (-1, 0));
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[test]
fn a_wait_ends_by_its_own_time() {
    let server = Server::start();
    let mut session = Session::open_on(server.connection(), "TIMEOUT 1200");
    let waits = [
        (50, 50, 500),
        (300, 300, 590),
        (60_000, 595, 1500),
        (0, 595, 1500),
    ];
    for (ms, least, most) in waits {
        let (took, polled) = timed(|| session.poll_for(ms));
        assert_eq!(polled.events, Vec::<String>::new());
        let took = took.as_millis();
        assert!((least..most).contains(&took), "{ms}: {took}");
    }
}

#[test]
fn an_unblocked_poll_has_no_events() {
    let (server, mut c, mut session) = Session::opened();
    session.acquire("k a PX 600000");
    session.stay(&server);
    let client = session.client_id(&mut c);
    if !unblocks() {
        for how in ["TIMEOUT", "ERROR"] {
            assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", client, how).int(), 0);
        }
        assert!(is_blocked(&mut c, client));
        return;
    }
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", client).int(), 1);
    let answer = session.polled();
    assert_eq!(answer.events, Vec::<String>::new());
    assert_eq!(answer.grants, 1);
    assert!(answer.sure_ms > 500_000);
    session.stay(&server);
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", client, "ERROR").int(), 1);
    session.connection.receive().refused("UNBLOCKED");
    run(&mut c, "DEL k").int();
    assert_eq!(session.poll().events.len(), 1);
}

/// The server drops a reply that it has not sent when the client is unblocked with an error in the same iteration of
/// its event loop.
#[test]
fn an_answer_that_is_dropped_acknowledges_nothing() {
    let (server, mut c, mut session) = Session::opened();
    let client = session.client_id(&mut c);
    for event in 1..=20 {
        session.acquire("k a");
        run(&mut c, "DEL k").int();
        server.while_stopped(|| {
            session.post_poll(60_000);
            c.post(&line(&format!("CLIENT UNBLOCK {client} ERROR")));
        });
        let is_dropped = c.receive().int() == 1;
        let reply = session.connection.receive();
        if is_dropped {
            reply.refused("UNBLOCKED");
        } else {
            assert_eq!(polled(reply).events.len(), 1);
        }
        // The next POLL, which acknowledges what is answered now.
        let events = session.poll().events;
        assert_eq!(events.len(), usize::from(is_dropped), "event {event}");
        if is_dropped || !unblocks() {
            return;
        }
    }
    panic!("the POLL was not answered before it was unblocked");
}

/// The client goes while it waits, and so does its POLL.
#[test]
fn a_client_that_goes_while_it_waits_leaves_the_session_detached() {
    let (server, mut c, mut session) = Session::opened();
    session.acquire("k a PX 600000");
    session.stay(&server);
    let id = session.leave(&server);
    run(&mut c, "DEL k").int();
    let mut again = Session::again(id, &server);
    assert_eq!(again.poll().events.len(), 1);
    assert_eq!(server.count("sessions_detached"), 0);
    again.connection.post(&line("PING"));
    assert_eq!(again.connection.receive().text(), "PONG");
}

#[test]
fn the_older_connections_waiting_poll_is_ended() {
    let (server, mut c, mut older) = Session::opened();
    let mut newer = Session::again(older.id, &server);
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
