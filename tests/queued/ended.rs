//! The event `ended`: calls that leave the line without a grant, and why.

use crate::support::{granted, has, hold};
use std::time::{Duration, Instant};
use testbed::{Expect, Session, Talk, cmd, run, wait, waiters};

#[test]
fn when_its_time_is_up() {
    let (server, mut c, mut session) = Session::held();
    session.stay(&server);
    let words = session.line("LOCK.ACQUIRE k b QUEUE 300 SESSION ID HOLDS 1");
    let since = Instant::now();
    run(&mut c, &words).int();
    assert_eq!(session.told(), ["1 ended k b timeout"]);
    let waited = since.elapsed();
    assert!(waited >= Duration::from_millis(299), "{waited:?}");
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    assert_eq!(server.count("queued"), 0);
    assert_eq!(session.poll().grants, 0);
    // A POLL is no condition.
    let words = session.line("LOCK.ACQUIRE k b QUEUE 1 SESSION ID HOLDS 1");
    run(&mut c, &words).int();
    assert_eq!(session.events(1), ["2 ended k b timeout"]);
}

#[test]
fn when_its_owner_cancels_it_from_any_connection() {
    let (server, mut c, mut first) = Session::held();
    let mut second = Session::open(&server);
    first.queue(&mut c, "k b");
    second.queue(&mut c, "k c");
    second.queue(&mut c, "k b");
    let mut blocked = wait(&server, "k b BLOCK 0");
    first.stay(&server);
    second.stay(&server);
    // With a token it cancels no wait.
    run(&mut c, "LOCK.RELEASE k b ALL TOKEN 1").refused("NOTOWNER");
    assert_eq!(server.count("queued"), 3);
    assert_eq!(run(&mut c, "LOCK.RELEASE k b ALL").int(), 0);
    assert_eq!(first.told(), ["1 ended k b cancelled"]);
    assert_eq!(second.told(), ["1 ended k b cancelled"]);
    blocked.receive().nil();
    assert_eq!(waiters(&mut c, "k"), ["c"]);
    run(&mut c, "LOCK.RELEASE k b ALL").refused("NOTOWNER");
}

#[test]
fn when_the_key_comes_to_hold_another_type() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.queue(&mut c, "k c SHARED");
    session.stay(&server);
    run(&mut c, "SET k v").okay();
    let events = session.told_all(2);
    for (event, start) in events.iter().zip(["1 ended k b", "2 ended k c"]) {
        assert!(event.starts_with(&format!("{start} WRONGTYPE ")), "{event}");
    }
    assert_eq!(server.count("queued"), 0);
    session.ask(&mut c, "k b").refused("WRONGTYPE");
}

/// Its owner comes to share the lock while it waits to have it alone.
#[test]
fn when_its_owner_is_not_alone() {
    let (server, mut c, mut session) = Session::held();
    let mut other = Session::open(&server);
    session.queue(&mut c, "k d SHARED");
    session.queue(&mut c, "k b SHARED");
    other.queue(&mut c, "k b");
    session.queue(&mut c, "k e SHARED");
    session.stay(&server);
    other.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let event = other.told().remove(0);
    assert!(event.starts_with("1 ended k b NOTALONE "), "{event}");
    session.told_all(3);
    has(&mut c, "k", &["d", "b", "e"]);
    assert_eq!(other.poll().grants, 0);
}

/// A waiting call is judged when its turn comes.
#[test]
fn when_its_lease_is_too_short_by_then() {
    let (server, mut c, mut session) = Session::held();
    let words = session.line("LOCK.ACQUIRE k b QUEUE 0 SESSION ID HOLDS 1");
    run(&mut c, &words).int();
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    run(&mut c, "CONFIG SET lock.default-lease-ms 500").okay();
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let event = session.told().remove(0);
    assert!(event.starts_with("1 ended k b ERR "), "{event}");
    behind.granted();
}

/// Numbers run through all kinds of events of a session.
#[test]
fn events_of_all_kinds_are_numbered_together() {
    let (server, mut c, mut session) = Session::opened();
    let mut other = Session::open(&server);
    hold(&mut c, &["k a", "j a", "busy a"]);
    session.ask(&mut c, "mine b").grant();
    session.queue(&mut c, "k b");
    session.queue(&mut c, "j b");
    session.queue(&mut c, "busy b");
    let token = cmd!(c, "LOCK.FENCE", "mine").int();
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let mut events = session.told();
    run(&mut c, "LOCK.RELEASE busy b ALL").int();
    run(&mut c, "DEL mine").int();
    run(&mut c, &other.line("LOCK.RENEW k b SESSION ID")).grant();
    events.extend(session.events(3));
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE j a").int();
    events.extend(session.told());
    let fence = cmd!(c, "LOCK.FENCE", "k").int();
    let expected = [
        granted(&mut c, 1, "k", "b"),
        "2 ended busy b cancelled".to_owned(),
        format!("3 lost mine b {token} deleted"),
        format!("4 taken k b {fence} {}", other.id),
        granted(&mut c, 5, "j", "b"),
    ];
    assert_eq!(events, expected);
    assert_eq!(other.poll().grants, 1);
}
