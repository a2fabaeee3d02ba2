//! Replicas, failovers and nodes that are primary no more.

use testbed::{Expect, Server, Session, cmd, eventually, run, sessions_of};

#[test]
fn a_replica_lists_and_helps_and_no_more() {
    let server = Server::start();
    let mut session = Session::open(&server);
    session.acquire("k a");
    let replica = server.replica();
    let mut r = replica.connection();
    for writable in ["yes", "no"] {
        run(&mut r, &format!("CONFIG SET replica-read-only {writable}")).okay();
        for words in [
            "LOCK.SESSION OPEN",
            "LOCK.SESSION POLL ID",
            "LOCK.SESSION GRANTS ID",
            "LOCK.SESSION CLOSE ID",
            "LOCK.SESSION KILL ID",
        ] {
            run(&mut r, &session.line(words)).refused("READONLY");
        }
        assert_eq!(run(&mut r, "LOCK.SESSION LIST").items().len(), 0);
        assert!(!run(&mut r, "LOCK.SESSION HELP").items().is_empty());
    }
    eventually(
        || run(&mut r, "EXISTS k").int() == 1,
        "the replica to follow",
    );
    assert_eq!(sessions_of(&mut r, "k"), [0]);
}

#[test]
fn sessions_end_when_the_server_stops_being_primary() {
    let server = Server::start();
    let other = Server::start();
    let mut c = server.connection();
    let mut session = Session::open(&server);
    let mut quiet = Session::open(&server);
    session.acquire("k a PX 600000");
    session.stay(&server);
    let primary = format!("REPLICAOF 127.0.0.1 {}", other.port());
    run(&mut c, &primary).okay();
    // Some servers close the connection then.
    if let Ok(value) = session.connection.recv_response() {
        value.refused("UNBLOCKED");
    }
    run(&mut quiet, "PING").text();
    quiet.run("LOCK.SESSION POLL ID").refused("READONLY");
    assert_eq!(server.count("sessions"), 0);
    run(&mut c, "REPLICAOF NO ONE").okay();
    quiet.run("LOCK.SESSION POLL ID").refused("NOSESSION");
    let words = session.line("LOCK.SESSION POLL ID");
    run(&mut c, &words).refused("NOSESSION");
}

/// A program opens a new session on the new primary, and moves its grants there.
#[test]
fn after_a_failover_the_grants_move_to_a_new_session() {
    let server = Server::start();
    let replica = server.replica();
    let mut session = Session::open(&server);
    let mut c = server.connection();
    let token = session.acquire("k a PX 600000").token;
    cmd!(c, "WAIT", 1, 0).int();
    let mut r = replica.connection();
    run(&mut r, "REPLICAOF NO ONE").okay();
    let words = format!("LOCK.RENEW k a TOKEN {token} SESSION {}", session.id);
    run(&mut r, &words).refused("NOSESSION");
    let mut again = Session::open_on(r, "");
    let words = format!("LOCK.RENEW k a TOKEN {token} SESSION ID");
    assert_eq!(again.run(&words).grant().token, token);
    assert_eq!(again.poll().grants, 1);
}
