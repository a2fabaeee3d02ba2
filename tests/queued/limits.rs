//! `MAXWAITERS`, and the settings behind it.

use crate::support::{granted, has, hold, released};
use testbed::{Expect, Server, Session, at_once, held, run, wait, waiters};

#[test]
fn so_many_calls_are_queued_as_the_setting_allows() {
    let (server, mut c) = held();
    hold(&mut c, &["j a"]);
    let session = Session::open(&server);
    let other = Session::open(&server);
    run(&mut c, "CONFIG SET lock.max-queued 2").okay();
    session.queue(&mut c, "k b");
    other.queue(&mut c, "j b");
    for words in ["k c", "j c"] {
        let text = session.ask(&mut c, words).refused("MAXWAITERS");
        assert!(text.contains("lock.max-queued"), "{text}");
    }
    // Blocked calls are not counted, and what need not wait is granted.
    let _blocked = wait(&server, "k d BLOCK 0");
    session.ask(&mut c, "free b").grant();
    run(&mut c, "LOCK.RELEASE j b ALL").int();
    assert_eq!(session.queue(&mut c, "k c"), 2);
    assert_eq!(server.count("queued"), 2);
}

/// Blocked and queued calls together.
#[test]
fn one_line_takes_so_many_calls_as_the_setting_allows() {
    let (server, mut c) = held();
    hold(&mut c, &["j a"]);
    let session = Session::open(&server);
    run(&mut c, "CONFIG SET lock.max-waiters 2").okay();
    session.queue(&mut c, "k b");
    let _blocked = wait(&server, "k c BLOCK 0");
    let text = session.ask(&mut c, "k d").refused("MAXWAITERS");
    assert!(text.contains("lock.max-waiters"), "{text}");
    run(&mut c, "LOCK.ACQUIRE k d BLOCK 10").refused("MAXWAITERS");
    assert_eq!(session.queue(&mut c, "j d"), 0);
    assert_eq!(waiters(&mut c, "k"), ["b", "c"]);
}

/// They cost no connection.
#[test]
fn the_limit_of_blocked_calls_does_not_concern_queued_ones() {
    let (server, mut c, session) = Session::held();
    run(&mut c, "CONFIG SET lock.max-waiters-total 0").okay();
    run(&mut c, "LOCK.ACQUIRE k b BLOCK 10").refused("MAXWAITERS");
    assert_eq!(session.queue(&mut c, "k b"), 0);
    // Nor do queued calls count for it.
    run(&mut c, "CONFIG SET lock.max-waiters-total 1").okay();
    let _blocked = wait(&server, "k c BLOCK 0");
    run(&mut c, "LOCK.ACQUIRE k d BLOCK 10").refused("MAXWAITERS");
    assert_eq!(session.queue(&mut c, "k e"), 2);
}

#[test]
fn what_is_in_line_is_still_granted() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.queue(&mut c, "k c");
    run(&mut c, "CONFIG SET lock.max-waiters 0").okay();
    run(&mut c, "CONFIG SET lock.max-queued 0").okay();
    let events = released(&server, &mut c, &mut session);
    assert_eq!(events, [granted(&mut c, 1, "k", "b")]);
    assert_eq!(waiters(&mut c, "k"), ["c"]);
}

/// A session has so many events that are not acknowledged.
#[track_caller]
fn cause_events(session: &Session, server: &Server, wanted: i64) {
    let mut c = server.connection();
    for part in (0..wanted).step_by(500) {
        let keys = part..wanted.min(part + 500);
        let acquires = keys.clone().map(|n| session.call(&format!("lost{n} a")));
        let deletions = keys.map(|n| format!("DEL lost{n}"));
        at_once(&mut c, &acquires.chain(deletions).collect::<Vec<_>>());
    }
    assert_eq!(session.number(&mut c, "events"), wanted);
}

#[test]
fn a_session_that_acknowledges_nothing_can_queue_no_more() {
    let (server, mut c) = held();
    hold(&mut c, &["j a"]);
    let mut session = Session::open(&server);
    let other = Session::open(&server);
    session.ask(&mut c, "mine b").grant();
    session.queue(&mut c, "k b");
    cause_events(&session, &server, 10_000);
    for words in ["j b", "k c", "free b"] {
        let text = session.ask(&mut c, words).refused("MAXWAITERS");
        assert!(text.contains("10000 events"), "{text}");
    }
    // Neither another session, nor a re-entry, nor a call that is in line already.
    assert_eq!(other.queue(&mut c, "k c"), 1);
    session.ask(&mut c, "mine b").grant();
    assert_eq!(session.queue(&mut c, "k b"), 0);
    // What is in line is still granted, and what happens is still told.
    run(&mut c, "LOCK.RELEASE k a").int();
    let events = session.events(10_001);
    assert_eq!(events[10_000], granted(&mut c, 10_001, "k", "b"));
    assert_eq!(session.queue(&mut c, "j b"), 0);
    has(&mut c, "j", &["a"]);
}
