//! Calls of a session that has been polled no more for a second are passed over: nobody waits for a program that
//! is frozen.

use crate::support::{SILENCE, granted, has, hold};
use redis::Connection;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Expect, Server, Session, Waiter, run, wait, waiters};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn while_a_poll_waits_it_is_not_passed_over() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    let _behind = wait(&server, "k c PX 600000 BLOCK 0");
    session.stay(&server);
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
    run(&mut c, &session.line("LOCK.RENEW j b SESSION ID")).grant();
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
