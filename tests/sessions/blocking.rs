//! `BLOCK` with `SESSION`: the call waits on its own connection, and its grant belongs to the session.

use redis::Connection;
use std::net::Shutdown;
use testbed::{
    Expect, Server, Session, Talk, Waiter, await_renewals, blocked_clients, cmd, eventually, line,
    run, sessions_of, stream, wait, waiters,
};

/// `k` is held by `b`, and a call of a session waits for it.
fn waits(words: &str) -> (Server, Connection, Session, Waiter) {
    let (server, mut c, session) = Session::opened();
    run(&mut c, "LOCK.ACQUIRE k b PX 600000").grant();
    let waiting = wait(&server, &session.line(&format!("k a {words} SESSION ID")));
    (server, c, session, waiting)
}

#[test]
fn the_grant_belongs_to_the_session() {
    let (server, mut c, mut session, mut waiting) = waits("PX 1000 BLOCK 0");
    let fields = run(&mut c, "LOCK.WAITERS k").items().remove(0).fields();
    assert_eq!(fields["session"].clone().int(), session.id);
    assert_eq!(session.number(&mut c, "waiting"), 1);
    assert_eq!(session.poll().grants, 0);
    run(&mut c, "LOCK.RELEASE k b").int();
    let token = waiting.receive().grant().token;
    assert_eq!(sessions_of(&mut c, "k"), [session.id]);
    assert_eq!(session.poll().grants, 1);
    assert_eq!(session.number(&mut c, "waiting"), 0);
    await_renewals(&server, 3);
    cmd!(c, "LOCK.FENCE", "k", token).okay();
    run(&mut c, "DEL k").int();
    let lost = format!("1 lost k a {token} deleted");
    assert_eq!(session.poll().events, [lost]);
}

#[test]
fn one_that_need_not_wait_is_in_the_session_at_once() {
    let (_server, mut c, session) = Session::opened();
    let words = session.line("LOCK.ACQUIRE k a BLOCK 0 SESSION ID");
    run(&mut c, &words).grant();
    assert_eq!(sessions_of(&mut c, "k"), [session.id]);
}

#[test]
fn when_the_session_ends_the_call_is_told() {
    let (server, mut c, session, mut waiting) = waits("BLOCK 0");
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    session.on(&mut c, "LOCK.SESSION CLOSE ID").int();
    waiting.receive().refused("NOSESSION");
    assert_eq!(waiters(&mut c, "k"), ["c"]);
    run(&mut c, "LOCK.RELEASE k b").int();
    behind.receive().grant();
    assert_eq!(run(&mut waiting, "PING").text(), "PONG");
}

#[test]
fn on_the_connection_that_polls_it_is_an_error() {
    let (server, mut c, mut session) = Session::opened();
    let words = "LOCK.ACQUIRE k a BLOCK 10 SESSION ID";
    let text = session.run(words).refused("ERR");
    assert!(text.contains("polls the session"), "{text}");
    run(&mut session, "SET string v").okay();
    for (words, code) in [
        ("k a BLOCK 10 SESSION 7", "NOSESSION"),
        ("string a BLOCK 10 SESSION ID", "ERR"),
    ] {
        println!("{words}");
        session.run(&format!("LOCK.ACQUIRE {words}")).refused(code);
    }
    // In a transaction and in a script too.
    run(&mut session, "MULTI").okay();
    session.run(words).text();
    let replies = run(&mut session, "EXEC").items();
    replies[0].clone().refused("ERR");
    let script = format!(
        "return redis.call('LOCK.ACQUIRE', KEYS[1], 'a', 'BLOCK', '10', 'SESSION', '{}')",
        session.id
    );
    cmd!(*session, "EVAL", script, 1, "k").refused("ERR");
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
    // Of another connection it does not wait there.
    cmd!(c, "EVAL", script, 1, "k").grant();
    session.stay(&server);
    cmd!(c, "EVAL", script, 1, "k").grant();
    // A connection that waits for something else is not the caller either.
    let mut other = Session::open(&server);
    other.post(&line("BLPOP nothing 0"));
    let script = script.replace(&session.id.to_string(), &other.id.to_string());
    eventually(|| blocked_clients(&server) == 2, "both to wait");
    cmd!(c, "EVAL", script, 1, "j").grant();
}

/// The client has gone when the lock comes to it: that is no event.
#[test]
fn a_grant_that_is_given_back_is_no_event() {
    for _ in 0..5 {
        let (server, mut c, mut session, waiting) = waits("PX 600000 BLOCK 0");
        let mut next = wait(&server, "k c PX 600000 BLOCK 0");
        server.while_stopped(|| {
            c.post(&line("LOCK.RELEASE k b"));
            drop(waiting);
        });
        assert_eq!(c.receive().int(), 0);
        assert_eq!(next.receive().grant().owner, b"c");
        let polled = session.poll();
        assert_eq!((polled.grants, polled.events), (0, vec![]));
        assert_eq!(server.count("session_losses"), 0);
    }
}

/// A waiting call is judged when its turn comes.
#[test]
fn its_lease_is_judged_when_its_turn_comes() {
    let (server, mut c, mut session, mut waiting) = waits("BLOCK 0");
    run(&mut c, "CONFIG SET lock.default-lease-ms 500").okay();
    let mut next = wait(&server, "k next PX 600000 BLOCK 0");
    run(&mut c, "LOCK.RELEASE k b").int();
    waiting.receive().refused("ERR");
    next.receive().grant();
    assert_eq!(session.poll().grants, 0);
}

/// The reply lies behind other output, which the client does not read. The server's renewals are no sign that somebody
/// has the grant.
#[test]
fn a_grant_that_was_never_sent_is_given_back_though_it_was_renewed() {
    for limit in ["LIMIT 1", "LIMIT 2"] {
        let (server, mut c, mut session) = Session::held();
        // More than the system takes for a client that does not read.
        cmd!(c, "SETRANGE", "much", 19_999_999, "x").int();
        let call = format!("LOCK.ACQUIRE k b {limit} PX 1000 BLOCK 0 SESSION ID");
        let slow = stream(&server, &["GET much", &session.line(&call)]);
        eventually(|| waiters(&mut c, "k") == ["b"], "it to wait");
        session.stay(&server);
        let mut next = wait(&server, "k c PX 600000 BLOCK 0");
        run(&mut c, "LOCK.RELEASE k a").int();
        assert_eq!(sessions_of(&mut c, "k"), [session.id]);
        await_renewals(&server, 2);
        slow.shutdown(Shutdown::Both).expect("closed");
        assert_eq!(next.receive().grant().owner, b"c", "{limit}");
        session.polled();
        assert_eq!(session.poll().grants, 0);
    }
}
