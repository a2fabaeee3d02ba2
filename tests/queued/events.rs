//! The events of queued calls: what they say, why a call leaves the line, and that no connection loses one.

use crate::support::{granted, has, hold, released};
use redis::Value;
use std::time::{Duration, Instant};
use testbed::{
    Expect, Server, Session, Talk, at_once, await_renewals, cmd, polled, run, sessions_of, wait,
    waiters,
};

#[test]
fn it_has_the_parts_of_the_grant_in_resp2_and_resp3() {
    let server = Server::start();
    for connection in [server.connection(), server.connection_resp3()] {
        let mut c = server.connection();
        let (key, owner) = (&b"k\0\xff"[..], &b"\r\n\xfe"[..]);
        let mut session = Session::open_on(connection, "");
        cmd!(c, "LOCK.ACQUIRE", key, "a", "PX", 600_000).grant();
        let options = ["PX", "5000", "QUEUE", "0", "HOLDS", "1", "SESSION"];
        cmd!(c, "LOCK.ACQUIRE", key, owner, options, session.id).int();
        session.stay(&server);
        cmd!(c, "LOCK.RELEASE", key, "a").int();
        let mut fields = session.receive().fields();
        assert_eq!(fields["grants"], Value::Int(1));
        let events = fields.remove("events").expect("events").items();
        let [event] = <[_; 1]>::try_from(events).expect("one event");
        let token = cmd!(c, "LOCK.FENCE", key).int();
        let bytes = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let numbers = [token, 1, 5000, 1].map(Value::Int);
        let mut event = event.items();
        assert_eq!(event.remove(1).text(), "granted");
        let expected = [Value::Int(1), bytes(key), bytes(owner)];
        assert_eq!(event, [&expected[..], &numbers].concat());
        cmd!(c, "DEL", key).int();
    }
}

#[test]
fn a_poll_that_waits_is_answered_at_once() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let polled = session.polled();
    assert_eq!(polled.events, [granted(&mut c, 1, "k", "b")]);
    assert_eq!(polled.grants, 1);
    // It counts for the grants of the reply's own events.
    let sure = polled.sure_ms;
    assert!((500_000..=660_000).contains(&sure), "{sure}");
    assert_eq!(server.count("queued"), 0);
}

#[test]
fn the_grant_belongs_to_the_session_which_renews_it() {
    let (server, mut c, mut session) = Session::held();
    let words = "LOCK.ACQUIRE k b PX 3000 QUEUE 0 SESSION ID HOLDS 1";
    session.on(&mut c, words).int();
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let token = cmd!(c, "LOCK.FENCE", "k").int();
    assert_eq!(session.told(), [format!("1 granted k b {token} 1 3000 1")]);
    assert_eq!(sessions_of(&mut c, "k"), [session.id]);
    let grants = session.on(&mut c, "LOCK.SESSION GRANTS ID").items();
    let fields = grants.into_iter().next().expect("a grant").fields();
    assert_eq!(fields["token"], Value::Int(token));
    // One renewal a second: the lease of three seconds outlasts a machine that stands still for two.
    await_renewals(&server, 4);
    cmd!(c, "LOCK.FENCE", "k", token).okay();
    run(&mut c, "DEL k").int();
    let lost = format!("2 lost k b {token} deleted");
    assert_eq!(session.events(1), [lost]);
}

#[test]
fn the_limit_is_that_of_the_grant() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b SHARED");
    session.queue(&mut c, "k c LIMIT 3");
    let mut events = released(&server, &mut c, &mut session);
    events.extend(session.events(2 - events.len()));
    for (event, (owner, limit)) in events.iter().zip([("b", "0"), ("c", "3")]) {
        let words: Vec<_> = event.split(' ').collect();
        assert_eq!((words[3], words[7]), (owner, limit), "{event}");
    }
}

/// Locks that come free between two polls are in one reply.
#[test]
fn one_reply_carries_what_came_together() {
    let (server, mut c, mut session) = Session::opened();
    let keys: Vec<_> = (0..64).map(|n| format!("k{n}")).collect();
    for key in &keys {
        hold(&mut c, &[&format!("{key} a")]);
        session.queue(&mut c, &format!("{key} b"));
    }
    let poll = session.line("LOCK.SESSION POLL ID");
    let releases = keys.iter().map(|key| format!("LOCK.RELEASE {key} a"));
    let mut lines: Vec<_> = [poll.clone()].into_iter().chain(releases).collect();
    lines.push(poll);
    let last = at_once(&mut session, &lines).pop().expect("a reply");
    let polled = polled(last);
    let expected: Vec<_> = (1..)
        .zip(&keys)
        .map(|(number, key)| granted(&mut c, number, key, "b"))
        .collect();
    assert_eq!(polled.events, expected);
    assert_eq!(polled.grants, 64);
    assert_eq!(server.count("session_grants"), 64);
    for key in ["k0", "k63"] {
        has(&mut c, key, &["b"]);
    }
}

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
    let events = released(&server, &mut c, &mut session);
    assert!(events[0].starts_with("1 ended k b ERR "), "{events:?}");
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
    let mut events = released(&server, &mut c, &mut session);
    run(&mut c, "LOCK.RELEASE busy b ALL").int();
    run(&mut c, "DEL mine").int();
    other.on(&mut c, "LOCK.RENEW k b SESSION ID").grant();
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

#[test]
fn a_grant_is_told_until_it_is_acknowledged() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    let events = released(&server, &mut c, &mut session);
    assert_eq!(events, [granted(&mut c, 1, "k", "b")]);
    // The reply is lost with its connection.
    let mut session = session.reconnect(&server);
    assert_eq!(session.poll().events, events);
    assert_eq!(session.number(&mut c, "events"), 1);
    assert_eq!(session.poll().events, Vec::<String>::new());
    assert_eq!(session.number(&mut c, "events"), 0);
    let mut session = session.reconnect(&server);
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (1, vec![]));
}

#[test]
fn a_reconnect_keeps_every_place() {
    let (server, mut c, mut first) = Session::held();
    let mut second = Session::open(&server);
    first.queue(&mut c, "k b");
    second.queue(&mut c, "k c");
    first.queue(&mut c, "k d");
    for _ in 0..3 {
        first = first.reconnect(&server);
        first.stay(&server);
    }
    second.stay(&server);
    assert_eq!(waiters(&mut c, "k"), ["b", "c", "d"]);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(first.told(), [granted(&mut c, 1, "k", "b")]);
    first.release(&mut c, "k", "b");
    assert_eq!(second.told(), [granted(&mut c, 1, "k", "c")]);
    first.stay(&server);
    second.release(&mut c, "k", "c");
    assert_eq!(first.told(), [granted(&mut c, 2, "k", "d")]);
}

#[test]
fn a_newer_connection_that_takes_over_keeps_every_place() {
    let (server, mut c, mut older) = Session::held();
    let mut newer = Session::again(older.id, &server);
    older.queue(&mut c, "k b");
    let _behind = wait(&server, "k c BLOCK 0");
    older.stay(&server);
    newer.stay(&server);
    older.connection.receive().refused("UNBLOCKED");
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(newer.told(), [granted(&mut c, 1, "k", "b")]);
    // The close of the older one is that of any connection.
    drop(older);
    hold(&mut c, &["j a"]);
    assert_eq!(newer.queue(&mut c, "j b"), 0);
    newer.stay(&server);
    run(&mut c, "LOCK.RELEASE j a").int();
    assert_eq!(newer.told(), [granted(&mut c, 2, "j", "b")]);
}
