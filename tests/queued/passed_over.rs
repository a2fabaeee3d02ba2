//! A call that is passed over still counts in limits, looks, repetition, cancellation and deadlock, and a POLL brings it
//! back into its place.

use crate::support::{fall_silent, granted, has, hold};
use redis::{Connection, Value};
use testbed::{Expect, Server, Session, eventually, run, wait, waiters};

/// A session that is away has these calls in line for `k`, which `a` holds.
#[track_caller]
fn passed_over(owners: &[&str]) -> (Server, Connection, Session, i64) {
    let (server, mut c, session) = Session::held();
    for owner in owners {
        session.queue(&mut c, &format!("k {owner}"));
    }
    let gone = session.leave(&server);
    // Its words can still be sent, over any connection.
    let words = Session::again(gone, &server);
    (server, c, words, gone)
}

#[test]
fn it_is_seen() {
    let (server, mut c, session, _) = passed_over(&["b", "d"]);
    assert_eq!(waiters(&mut c, "k"), ["b", "d"]);
    assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().waiters, 2);
    assert_eq!(session.number(&mut c, "waiting"), 2);
    assert_eq!(server.count("queued"), 2);
    let fields = run(&mut c, "LOCK.WAITERS k").items().remove(0).fields();
    assert_eq!(fields["session"].clone().int(), session.id);
    assert_eq!(fields["client-id"].clone().int(), 0);
    // Others stand behind it, by their places too.
    let other = Session::open(&server);
    assert_eq!(other.queue(&mut c, "k e"), 2);
}

#[test]
fn it_counts_for_limits() {
    let (server, mut c, _, _) = passed_over(&["b", "d"]);
    let other = Session::open(&server);
    run(&mut c, "CONFIG SET lock.max-waiters 2").okay();
    run(&mut c, "LOCK.ACQUIRE k c BLOCK 10").refused("MAXWAITERS");
    other.ask(&mut c, "k c").refused("MAXWAITERS");
    run(&mut c, "CONFIG SET lock.max-waiters 10").okay();
    run(&mut c, "CONFIG SET lock.max-queued 2").okay();
    other.ask(&mut c, "k c").refused("MAXWAITERS");
    run(&mut c, "CONFIG SET lock.max-queued 3").okay();
    assert_eq!(other.queue(&mut c, "k c"), 2);
}

#[test]
fn it_counts_for_deadlock() {
    let (_server, mut c, session, _) = passed_over(&["b"]);
    hold(&mut c, &["j b"]);
    run(&mut c, "LOCK.ACQUIRE j a BLOCK 10000").refused("DEADLOCK");
    session.ask(&mut c, "j a").refused("DEADLOCK");
}

#[test]
fn its_owner_can_cancel_it() {
    let (server, mut c, session, gone) = passed_over(&["b", "d"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k b ALL").int(), 0);
    assert_eq!(waiters(&mut c, "k"), ["d"]);
    // On a lock that is free, too.
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(run(&mut c, "LOCK.RELEASE k d ALL").int(), 0);
    run(&mut c, "LOCK.RELEASE k d ALL").refused("NOTHELD");
    assert_eq!(server.count("queued"), 0);
    assert_eq!(session.number(&mut c, "events"), 2);
    let expected = ["1 ended k b cancelled", "2 ended k d cancelled"];
    assert_eq!(Session::again(gone, &server).events(2), expected);
}

#[test]
fn its_time_ends() {
    let (server, mut c, session, gone) = passed_over(&[]);
    let words = "LOCK.ACQUIRE k b QUEUE 1 SESSION ID HOLDS 1";
    assert_eq!(session.on(&mut c, words).int(), 0);
    eventually(|| server.count("queued") == 0, "the end of its time");
    let told = Session::again(gone, &server).events(1);
    assert_eq!(told, ["1 ended k b timeout"]);
}

#[test]
fn a_repeated_call_is_answered_its_place_even_on_a_free_lock() {
    let (server, mut c, session, gone) = passed_over(&["b", "d"]);
    assert_eq!(session.queue(&mut c, "k d"), 1);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.queue(&mut c, "k b"), 0);
    assert_eq!(session.queue(&mut c, "k d"), 1);
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
    assert_eq!(server.count("queued"), 2);
    // Only a POLL brings it back.
    let events = Session::again(gone, &server).events(1);
    assert_eq!(events, [granted(&mut c, 1, "k", "b")]);
}

#[test]
fn a_first_call_of_a_session_that_is_away_is_judged_like_a_newcomers() {
    let (server, mut c, session, gone) = loop {
        let (server, mut c, session, gone) = passed_over(&["b"]);
        assert_eq!(session.queue(&mut c, "k d"), 1);
        run(&mut c, "LOCK.RELEASE k a").int();
        // Only calls that are passed over are in line. It has a place where a busy machine has just made a stall.
        if session.ask(&mut c, "k e").value() != Value::Int(2) {
            break (server, c, session, gone);
        }
    };
    has(&mut c, "k", &["e"]);
    session.ask(&mut c, "free e").grant();
    assert_eq!(session.queue(&mut c, "k f"), 2);
    assert_eq!(waiters(&mut c, "k"), ["b", "d", "f"]);
    // It is passed over from the beginning.
    let mut other = wait(&server, "k g PX 600000 BLOCK 0");
    run(&mut c, "LOCK.RELEASE k e").int();
    other.granted();
    let mut back = Session::again(gone, &server);
    assert_eq!(back.poll().grants, 1);
}

#[test]
fn it_is_answered_when_the_key_comes_to_hold_another_type() {
    for free_first in [false, true] {
        let (server, mut c, _, gone) = passed_over(&["b"]);
        if free_first {
            run(&mut c, "LOCK.RELEASE k a").int();
        }
        run(&mut c, "SET k v").okay();
        // Before it returns.
        eventually(|| server.count("queued") == 0, "the answer");
        let events = Session::again(gone, &server).events(1);
        let start = "1 ended k b WRONGTYPE ";
        assert!(events[0].starts_with(start), "{events:?}");
    }
}

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
