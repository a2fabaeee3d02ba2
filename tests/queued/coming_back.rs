//! A POLL brings the calls of a session back into their places.

use crate::support::{fall_silent, granted, has, hold};
use redis::Connection;
use testbed::{Expect, Server, Session, run, waiters};

/// The session is away, in each of the two ways.
#[track_caller]
fn each_way(test: impl Fn(&Server, &mut Connection, Session, fn(Session, &Server) -> Session)) {
    let (server, mut c, session) = Session::held();
    test(&server, &mut c, session, |session, server| {
        session.reconnect(server)
    });
    let (server, mut c, session) = Session::held();
    test(&server, &mut c, session, |mut session, _| {
        session.poll();
        fall_silent();
        session
    });
}

#[test]
fn a_free_lock_is_granted_at_once() {
    each_way(|server, c, session, away| {
        session.queue(c, "k b");
        session.queue(c, "k d");
        let mut session = away(session, server);
        run(c, "LOCK.RELEASE k a").int();
        assert_eq!(run(c, "EXISTS k").int(), 0);
        let events = session.events(1);
        assert_eq!(events, [granted(c, 1, "k", "b")]);
        assert_eq!(waiters(c, "k"), ["d"]);
    });
}

/// A POLL that does not wait brings them back, too; the event may come with the next.
#[test]
fn by_a_poll_that_does_not_wait() {
    each_way(|server, c, session, away| {
        session.queue(c, "k b");
        let mut session = away(session, server);
        run(c, "LOCK.RELEASE k a").int();
        let mut events = session.poll().events;
        if events.is_empty() {
            events = session.events(1);
        }
        assert_eq!(events, [granted(c, 1, "k", "b")]);
    });
}

/// One POLL brings all calls of the session back, whatever locks they wait for.
#[test]
fn all_its_locks_are_granted_by_one_poll() {
    const LOCKS: usize = 50;
    let (server, mut c, session) = Session::opened();
    let keys: Vec<_> = (0..LOCKS).map(|n| format!("k{n}")).collect();
    for key in &keys {
        hold(&mut c, &[&format!("{key} a")]);
        session.queue(&mut c, &format!("{key} b"));
        session.queue(&mut c, &format!("{key} c"));
    }
    let gone = session.leave(&server);
    for key in &keys {
        run(&mut c, &format!("LOCK.RELEASE {key} a")).int();
    }
    assert_eq!(run(&mut c, "DBSIZE").int(), 0);
    let mut session = Session::again(gone, &server);
    assert_eq!(session.events(LOCKS).len(), LOCKS);
    for key in &keys {
        has(&mut c, key, &["b"]);
        assert_eq!(waiters(&mut c, key), ["c"]);
    }
    assert_eq!(session.poll().grants, i64::try_from(LOCKS).expect("few"));
}

/// Of two sessions that are away, the one that returns first is granted first.
#[test]
fn who_comes_back_first_is_granted_and_the_other_keeps_its_place() {
    let (server, mut c, first) = Session::opened();
    let second = Session::open(&server);
    let keys = ["k0", "k1", "k2"];
    for key in keys {
        hold(&mut c, &[&format!("{key} a")]);
        for turn in 1..=2 {
            first.queue(&mut c, &format!("{key} b{turn}"));
            second.queue(&mut c, &format!("{key} c{turn}"));
        }
    }
    let (first, second) = (first.leave(&server), second.leave(&server));
    for key in keys {
        run(&mut c, &format!("LOCK.RELEASE {key} a")).int();
    }
    let mut second = Session::again(second, &server);
    second.events(keys.len());
    for key in keys {
        has(&mut c, key, &["c1"]);
    }
    let mut first = Session::again(first, &server);
    first.stay(&server);
    second.stay(&server);
    for key in keys {
        second.release(&mut c, key, "c1");
    }
    first.told_all(keys.len());
    first.stay(&server);
    for key in keys {
        has(&mut c, key, &["b1"]);
        assert_eq!(waiters(&mut c, key), ["b2", "c2"], "{key}");
    }
    first.release(&mut c, "k1", "b1");
    has(&mut c, "k1", &["b2"]);
    assert_eq!(first.told().len(), 1);
}
