//! What becomes of queued calls when their session ends, or the server is primary no more.

use crate::support::{hold, released};
use testbed::{
    Expect, Server, Session, at_once, cmd, eventually, held, run, started, transaction, wait,
    waiters,
};

#[test]
fn its_calls_leave_the_line() {
    for subcommand in ["CLOSE", "KILL"] {
        let (server, mut c) = held();
        hold(&mut c, &["j a"]);
        let mut session = Session::open(&server);
        let other = Session::open(&server);
        session.queue(&mut c, "k b");
        other.queue(&mut c, "k c");
        session.queue(&mut c, "k d");
        session.queue(&mut c, "j b");
        let words = format!("LOCK.SESSION {subcommand} ID");
        assert_eq!(session.on(&mut c, &words).int(), 0);
        assert_eq!(waiters(&mut c, "k"), ["c"]);
        assert_eq!(waiters(&mut c, "j"), [""; 0]);
        assert_eq!(server.count("queued"), 1);
        session.ask(&mut c, "k b").refused("NOSESSION");
        session.run("LOCK.SESSION POLL ID").refused("NOSESSION");
    }
}

#[test]
fn its_grants_are_released_and_go_to_the_next_in_line() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.queue(&mut c, "k d");
    let mut next = wait(&server, "k c PX 600000 BLOCK 0");
    released(&server, &mut c, &mut session);
    assert_eq!(session.on(&mut c, "LOCK.SESSION CLOSE ID").int(), 1);
    // Its other call in the same line is gone by then.
    assert_eq!(next.granted().owner, b"c");
    assert_eq!(waiters(&mut c, "k"), [""; 0]);
}

/// Many calls in many lines are removed in slices, each before any LOCK command on its key could meet it.
#[test]
fn nothing_is_left_of_many_calls() {
    const CALLS: i64 = 5000;
    let (server, mut c, mut session) = Session::held();
    // Otherwise a slow machine would find the program away, and none of its calls is granted for that reason.
    session.stay(&server);
    let of_a_number = |n| {
        let own = format!("LOCK.ACQUIRE own{n} a PX 600000");
        let [in_one, in_another] = [format!("k b{n}"), format!("own{n} b")];
        [own, session.call(&in_one), session.call(&in_another)]
    };
    let lines: Vec<_> = (0..CALLS).flat_map(of_a_number).collect();
    for part in lines.chunks(1000) {
        at_once(&mut c, part);
    }
    assert_eq!(server.count("queued"), 2 * CALLS);
    let mut next = wait(&server, "k next PX 600000 BLOCK 0");
    let close = session.line("LOCK.SESSION CLOSE ID");
    let commands = [&close, "LOCK.RELEASE k a", "LOCK.RELEASE own4999 a"];
    for reply in at_once(&mut c, &commands) {
        assert_eq!(reply.int(), 0);
    }
    assert_eq!(next.granted().owner, b"next");
    assert_eq!(run(&mut c, "EXISTS own4999").int(), 0);
    eventually(|| server.count("queued") == 0, "all to be gone");
    assert_eq!(waiters(&mut c, "k"), [""; 0]);
    assert_eq!(waiters(&mut c, "own2500"), [""; 0]);
}

/// Its calls held back others, of whom the first are granted inside the command, however many calls it has.
#[test]
fn those_behind_its_calls_are_granted_inside_the_command() {
    for word in ["CLOSE", "KILL"] {
        let (server, mut c) = started();
        hold(&mut c, &["k a SHARED", "other a"]);
        let mut session = Session::open(&server);
        session.queue(&mut c, "k b");
        let calls = (0..5000).map(|n| session.call(&format!("other b{n}")));
        at_once(&mut c, &calls.collect::<Vec<_>>());
        session.stay(&server);
        let mut behind = wait(&server, "k c SHARED PX 600000 BLOCK 0");
        let close = session.line(&format!("LOCK.SESSION {word} ID"));
        let replies = transaction(&mut c, &[&close, "LOCK.HOLDERS k"]);
        assert_eq!(replies[1].clone().items().len(), 2, "{word}");
        assert_eq!(behind.granted().owner, b"c");
    }
}

#[test]
fn calls_end_when_the_server_stops_being_primary() {
    let (server, mut c) = held();
    let other = Server::start();
    let mut session = Session::open(&server);
    let mut quiet = Session::open(&server);
    session.acquire("mine a PX 600000");
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
    run(&mut quiet, "PING").text();
    quiet.run("LOCK.SESSION POLL ID").refused("READONLY");
    run(&mut c, "REPLICAOF NO ONE").okay();
    quiet.run("LOCK.SESSION POLL ID").refused("NOSESSION");
    let words = session.line("LOCK.SESSION POLL ID");
    run(&mut c, &words).refused("NOSESSION");
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
    let words = format!("LOCK.RENEW mine b TOKEN {} SESSION ID", grant.token);
    session.on(&mut r, &words).refused("NOSESSION");
    let mut session = Session::open(&replica);
    assert_eq!(session.run(&words).grant().token, grant.token);
    assert_eq!(session.queue(&mut r, "k b"), 0);
    session.stay(&replica);
    run(&mut r, "LOCK.RELEASE k a").int();
    assert_eq!(session.told().len(), 1);
    assert_eq!(session.poll().grants, 2);
}
