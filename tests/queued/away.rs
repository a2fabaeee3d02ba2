//! Calls of a session that is detached, or is polled no more for a second, are passed over: nobody waits for a program
//! that is gone or frozen.

use crate::support::{SILENCE, granted, has, hold, two_in_line};
use redis::{Connection, Value};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{
    Expect, Server, Session, Talk, Waiter, eventually, holders, line, run, started, wait, waiters,
};

#[test]
fn the_lock_goes_to_the_next_in_line() {
    let (server, mut c, session, mut behind) = two_in_line();
    session.leave(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(behind.granted().owner, b"c");
    // The call keeps its place.
    assert_eq!(waiters(&mut c, "k"), ["b"]);
    assert_eq!(server.count("queued"), 1);
    // A queued call of another session is next in the same way.
    let mut other = Session::open(&server);
    assert_eq!(other.queue(&mut c, "k d"), 1);
    other.stay(&server);
    run(&mut c, "LOCK.RELEASE k c").int();
    other.told();
    has(&mut c, "k", &["d"]);
    assert_eq!(waiters(&mut c, "k"), ["b"]);
}

/// The server has not read the close when the lock comes free.
#[test]
fn a_connection_that_closed_unread_is_gone() {
    for close_first in [true, false] {
        for polls in [true, false] {
            let (server, mut c, mut session) = Session::held();
            session.queue(&mut c, "k b");
            let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
            session.poll();
            if polls {
                session.stay(&server);
            }
            server.while_stopped(|| {
                if close_first {
                    drop(session);
                    c.post(&line("LOCK.RELEASE k a"));
                } else {
                    c.post(&line("LOCK.RELEASE k a"));
                    drop(session);
                }
            });
            assert_eq!(c.receive().int(), 0);
            assert_eq!(behind.granted().owner, b"c");
            assert_eq!(waiters(&mut c, "k"), ["b"]);
        }
    }
}

/// The connection is open, and polls the session no more.
#[test]
fn a_connection_with_another_user_or_database_is_gone() {
    let (server, mut c) = started();
    run(&mut c, "ACL SETUSER bob on >secret ~* &* +@all").okay();
    for change in ["SELECT 1", "AUTH bob secret"] {
        run(&mut c, "FLUSHALL").okay();
        hold(&mut c, &["k a"]);
        let mut session = Session::open(&server);
        session.queue(&mut c, "k b");
        let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
        session.poll();
        run(&mut session, change).okay();
        run(&mut c, "LOCK.RELEASE k a").int();
        assert_eq!(behind.granted().owner, b"c", "{change}");
        session.on(&mut c, "LOCK.SESSION KILL ID").int();
    }
}

#[test]
fn with_nobody_else_in_line_the_lock_is_free() {
    let (server, mut c, session) = Session::held();
    session.queue(&mut c, "k b");
    session.queue(&mut c, "k d");
    session.leave(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
    assert_eq!(run(&mut c, "LOCK.INFO k").value(), Value::Nil);
    assert_eq!(waiters(&mut c, "k"), ["b", "d"]);
    // Newcomers of every kind are granted.
    hold(&mut c, &["k x"]);
    run(&mut c, "LOCK.ACQUIRE k y").nil();
    run(&mut c, "LOCK.RELEASE k x").int();
    run(&mut c, "LOCK.ACQUIRE k x PX 600000 BLOCK 0").grant();
    run(&mut c, "LOCK.RELEASE k x").int();
    let other = Session::open(&server);
    let is_place = |reply: &Value| matches!(reply, Value::Int(_));
    eventually(|| !is_place(&other.ask(&mut c, "k x").value()), "the grant");
    assert_eq!(waiters(&mut c, "k"), ["b", "d"]);
}

/// Those behind a call that has no room are granted when its program goes.
#[test]
fn those_behind_that_have_room_are_granted_when_it_goes() {
    let (server, mut c) = started();
    hold(&mut c, &["k a SHARED"]);
    let mut session = Session::open(&server);
    let mut other = Session::open(&server);
    session.queue(&mut c, "k b");
    let mut reader = wait(&server, "k c SHARED PX 600000 BLOCK 0");
    other.queue(&mut c, "k d SHARED");
    let writer = wait(&server, "k e BLOCK 0");
    other.queue(&mut c, "k f SHARED");
    session.stay(&server);
    other.stay(&server);
    session.leave(&server);
    reader.granted();
    assert_eq!(other.told().len(), 1);
    has(&mut c, "k", &["a", "c", "d"]);
    // The next writer waits, and holds back those behind it.
    assert_eq!(waiters(&mut c, "k"), ["b", "e", "f"]);
    run(&mut c, "LOCK.ACQUIRE k x SHARED").nil();
    drop(writer);
    eventually(|| holders(&mut c, "k").len() == 4, "the last reader");
}

/// A blocked call of the session too.
#[test]
fn a_blocked_call_of_the_session_is_passed_over() {
    let (server, mut c, session) = Session::held();
    let words = session.line("k b PX 600000 BLOCK 0 SESSION ID");
    let mut passed = wait(&server, &words);
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    let gone = session.leave(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(behind.granted().owner, b"c");
    assert!(passed.is_blocked(&mut c));
    assert_eq!(waiters(&mut c, "k"), ["b"]);
    run(&mut c, "LOCK.RELEASE k c").int();
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
    assert!(passed.is_blocked(&mut c));
    let mut session = Session::again(gone, &server);
    session.poll();
    assert_eq!(passed.granted().owner, b"b");
    assert_eq!(session.poll().grants, 1);
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn while_a_poll_waits_it_is_not_passed_over() {
    let (_server, mut c, mut session, _behind) = two_in_line();
    sleep(SILENCE + SECOND);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
}

/// A reader waits behind a writer of the session, which keeps it out until it is passed over.
#[track_caller]
fn writer_before_reader(session: &Session, server: &Server) -> (Connection, Waiter) {
    let mut c = server.connection();
    hold(&mut c, &["k a SHARED"]);
    session.queue(&mut c, "k b");
    let reader = wait(server, "k c SHARED PX 600000 BLOCK 0");
    (c, reader)
}

/// Those behind it are granted when the second is over, though nothing else happens then, and not before.
#[track_caller]
fn is_passed_over_a_second_after(since: Instant, reader: &mut Waiter) {
    reader.granted();
    let after = since.elapsed();
    assert!(after >= SECOND, "too early: {after:?}");
    assert!(after < 10 * SECOND, "{after:?}");
}

#[test]
fn the_second_begins_with_the_reply_to_open() {
    let server = Server::start();
    let since = Instant::now();
    let session = Session::open(&server);
    let (_c, mut reader) = writer_before_reader(&session, &server);
    is_passed_over_a_second_after(since, &mut reader);
}

#[test]
fn the_second_begins_with_the_reply_to_a_poll() {
    let server = Server::start();
    let mut session = Session::open(&server);
    session.stay(&server);
    let (mut c, mut reader) = writer_before_reader(&session, &server);
    hold(&mut c, &["j b"]);
    session.on(&mut c, "LOCK.RENEW j b SESSION ID").grant();
    sleep(SILENCE);
    // It has waited for longer than a second; its reply is what counts.
    let since = Instant::now();
    run(&mut c, "DEL j").int();
    session.told();
    is_passed_over_a_second_after(since, &mut reader);
}

#[test]
fn neither_a_refused_poll_nor_another_command_brings_it_back() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let (mut c, mut reader) = writer_before_reader(&session, &server);
    reader.granted();
    session.run("LOCK.SESSION POLL ID BLOCK x").refused("ERR");
    session.acquire("mine b PX 600000");
    run(&mut session, "PING").text();
    assert_eq!(session.queue(&mut c, "k b"), 0);
    hold(&mut c, &["k d SHARED"]);
    assert_eq!(waiters(&mut c, "k"), ["b"]);
    // A POLL does: it keeps readers out again.
    session.stay(&server);
    run(&mut c, "LOCK.ACQUIRE k e SHARED").nil();
    has(&mut c, "k", &["a", "c", "d"]);
}
