//! Replicas, failovers, restarts: queued calls are memory of one primary.

use crate::support::hold;
use testbed::{Expect, Server, Session, cmd, eventually, held, run, transaction, waiters};

#[test]
fn calls_end_when_the_server_stops_being_primary() {
    let (server, mut c) = held();
    let other = Server::start();
    let mut session = Session::open(&server);
    let quiet = Session::open(&server);
    session.queue(&mut c, "k b");
    quiet.queue(&mut c, "k c");
    session.stay(&server);
    let primary = format!("REPLICAOF 127.0.0.1 {}", other.port());
    run(&mut c, &primary).okay();
    // Some servers close the connection then.
    if let Ok(value) = session.connection.recv_response() {
        value.refused("UNBLOCKED");
    }
    assert_eq!(server.count("sessions"), 0);
    eventually(|| server.count("queued") == 0, "the calls to be gone");
    assert_eq!(waiters(&mut c, "k"), [""; 0]);
    run(&mut c, "REPLICAOF NO ONE").okay();
    session.ask(&mut c, "k b").refused("NOSESSION");
    // The old data may still be there, or not.
    hold(&mut c, &["other x"]);
    let again = Session::open(&server);
    assert_eq!(again.queue(&mut c, "other b"), 0);
}

/// The server is a replica only for a moment, in which no timer fires. No session is left that could end the calls.
#[test]
fn calls_end_though_the_server_is_primary_again_at_once() {
    let (server, mut c) = held();
    let other = Server::start();
    let away = Session::open(&server);
    let mut session = Session::open(&server);
    away.queue(&mut c, "k b");
    session.queue(&mut c, "k c");
    away.leave(&server);
    session.stay(&server);
    let primary = format!("REPLICAOF 127.0.0.1 {}", other.port());
    let executed = transaction(&mut c, &[&primary, "REPLICAOF NO ONE"]);
    assert_eq!(executed.len(), 2);
    assert_eq!(server.count("sessions"), 0);
    eventually(|| server.count("queued") == 0, "the calls to be gone");
    assert_eq!(waiters(&mut c, "k"), [""; 0]);
}

/// A program opens a session on the new primary, moves its grants there, and queues its waits again.
#[test]
fn after_a_failover_a_program_queues_again() {
    let (server, mut c) = held();
    let replica = server.replica();
    let mut session = Session::open(&server);
    let grant = session.ask(&mut c, "mine b").grant();
    session.queue(&mut c, "k b");
    session.stay(&server);
    cmd!(c, "FAILOVER", "TO", "127.0.0.1", replica.port()).okay();
    replica.wait_for_role("master");
    eventually(|| server.count("queued") == 0, "the old calls to be gone");
    let mut r = replica.connection();
    session.ask(&mut r, "k b").refused("NOSESSION");
    let mut session = Session::open(&replica);
    let words = format!("LOCK.RENEW mine b TOKEN {} SESSION ID", grant.token);
    assert_eq!(session.run(&words).grant().token, grant.token);
    assert_eq!(session.queue(&mut r, "k b"), 0);
    session.stay(&replica);
    run(&mut r, "LOCK.RELEASE k a").int();
    assert_eq!(session.told().len(), 1);
    assert_eq!(session.poll().grants, 2);
}
