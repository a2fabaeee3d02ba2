//! A POLL brings the calls of a session back into their places.

use crate::support::{Session, fall_silent, granted, has, hold, run, wait};
use redis::Connection;
use testbed::{Expect, Server, held, waiters};

/// The session is away, in each of the two ways.
#[track_caller]
fn each_way(test: impl Fn(&Server, &mut Connection, Session, fn(Session, &Server) -> Session)) {
    let (server, mut c) = held();
    let session = Session::open(&server);
    test(&server, &mut c, session, |session, server| {
        session.leave(server).back(server)
    });
    let (server, mut c) = held();
    let session = Session::open(&server);
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

#[test]
fn its_place_is_before_those_who_came_later() {
    each_way(|server, c, session, away| {
        session.queue(c, "k b");
        let mut next = wait(server, "k c PX 600000 BLOCK 0");
        let mut last = wait(server, "k d PX 600000 BLOCK 0");
        let mut session = away(session, server);
        run(c, "LOCK.RELEASE k a").int();
        next.granted();
        assert_eq!(waiters(c, "k"), ["b", "d"]);
        session.stay(server);
        // It takes nothing from the holder.
        has(c, "k", &["c"]);
        run(c, "LOCK.RELEASE k c").int();
        assert_eq!(session.told(), [granted(c, 1, "k", "b")]);
        session.release(c, "k", "b");
        last.granted();
    });
}

/// One POLL brings all calls of the session back, whatever locks they wait for.
#[test]
fn all_its_locks_are_granted_by_one_poll() {
    const LOCKS: usize = 50;
    let server = Server::start();
    let mut c = server.connection();
    let session = Session::open(&server);
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
    let mut session = gone.back(&server);
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
    let server = Server::start();
    let mut c = server.connection();
    let first = Session::open(&server);
    let second = Session::open(&server);
    let keys = ["k0", "k1", "k2"];
    for key in keys {
        hold(&mut c, &[&format!("{key} a")]);
        for (session, owner) in [
            (&first, "b1"),
            (&second, "c1"),
            (&first, "b2"),
            (&second, "c2"),
        ] {
            session.queue(&mut c, &format!("{key} {owner}"));
        }
    }
    let (first, second) = (first.leave(&server), second.leave(&server));
    for key in keys {
        run(&mut c, &format!("LOCK.RELEASE {key} a")).int();
    }
    let mut second = second.back(&server);
    second.events(keys.len());
    for key in keys {
        has(&mut c, key, &["c1"]);
    }
    let mut first = first.back(&server);
    first.stay(&server);
    second.stay(&server);
    for key in keys {
        second.release(&mut c, key, "c1");
    }
    let mut told = first.told();
    told.extend(first.events(keys.len() - told.len()));
    first.stay(&server);
    for key in keys {
        has(&mut c, key, &["b1"]);
        assert_eq!(waiters(&mut c, key), ["b2", "c2"], "{key}");
    }
    first.release(&mut c, "k1", "b1");
    has(&mut c, "k1", &["b2"]);
    assert_eq!(first.told().len(), 1);
}

/// Its owner has come to hold the lock meanwhile: it is judged with that grant, though nobody before it has room.
#[test]
fn it_may_be_a_re_entry_behind_a_call_that_has_no_room() {
    let server = Server::start();
    let mut c = server.connection();
    hold(&mut c, &["k a SHARED"]);
    let (first, second) = (Session::open(&server), Session::open(&server));
    first.queue(&mut c, "k b");
    second.queue(&mut c, "k c SHARED");
    let second = second.leave(&server);
    let first = first.leave(&server);
    assert_eq!(waiters(&mut c, "k"), ["b", "c"]);
    hold(&mut c, &["k c SHARED"]);
    let token = run(&mut c, "LOCK.RENEW k c").grant().token;
    let mut first = first.back(&server);
    first.stay(&server);
    let mut second = second.back(&server);
    let event = format!("1 granted k c {token} 1 600000 0");
    // Before the server ends the POLL of the first, whose call is passed over then.
    second.post_poll(60_000);
    assert_eq!(second.polled().events, [event]);
    assert_eq!(waiters(&mut c, "k"), ["b"]);
}
