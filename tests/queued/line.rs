//! One line for queued and blocked calls: its order, how the lock comes to it, and what holds grants back.

use crate::support::{granted, has, hold, two_in_line};
use std::thread::sleep;
use std::time::Duration;
use testbed::{
    Copies, Expect, Server, Session, at_once, cmd, eventually, held, run, wait, waiters,
};

/// A call of the session has been granted `k`, and its next POLL waits.
#[track_caller]
fn has_k(session: &mut Session, server: &Server, owner: &str) {
    let events = session.told();
    assert_eq!(events.len(), 1, "{events:?}");
    let part = format!(" granted k {owner} ");
    assert!(events[0].contains(&part), "{events:?}");
    session.stay(server);
}

#[test]
fn queued_and_blocked_calls_are_served_in_one_order() {
    let (server, mut c) = held();
    let [mut one, mut other] = [(); 2].map(|()| Session::open(&server));
    one.stay(&server);
    other.stay(&server);
    one.queue(&mut c, "k b");
    let mut first = wait(&server, "k c PX 600000 BLOCK 0");
    other.queue(&mut c, "k d");
    one.queue(&mut c, "k e");
    let mut second = wait(&server, "k f PX 600000 BLOCK 0");
    run(&mut c, "LOCK.RELEASE k a").int();
    has_k(&mut one, &server, "b");
    one.release(&mut c, "k", "b");
    let mut last = first.granted().token;
    run(&mut c, "LOCK.RELEASE k c").int();
    has_k(&mut other, &server, "d");
    other.release(&mut c, "k", "d");
    has_k(&mut one, &server, "e");
    let token = cmd!(c, "LOCK.FENCE", "k").int();
    assert!(token > last);
    last = token;
    one.release(&mut c, "k", "e");
    assert!(second.granted().token > last);
    assert_eq!(waiters(&mut c, "k"), [""; 0]);
}

/// The client of a blocked call disconnects before it gets the reply. Another call of its grant was answered.
#[test]
fn what_a_blocked_call_gives_back_is_not_the_grant_of_a_queued_one() {
    let (server, mut c, mut session) = Session::held();
    let blocked = wait(&server, "k b PX 600000 BLOCK 0 HOLDS 1");
    session.queue(&mut c, "k b");
    session.stay(&server);
    let kill = format!("CLIENT KILL ID {}", blocked.id);
    at_once(&mut c, &["LOCK.RELEASE k a", &kill]);
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
    assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().holds, 1);
    assert_eq!(session.poll().grants, 1);
}

#[test]
fn by_the_end_of_its_lease() {
    for end in ["LOCK.RENEW k a PX 30", "PEXPIRE k 30"] {
        let (_server, mut c, mut session, mut behind) = two_in_line();
        run(&mut c, end).value();
        assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")], "{end}");
        assert_eq!(waiters(&mut c, "k"), ["c"], "{end}");
        run(&mut c, "LOCK.RELEASE k b").int();
        behind.granted();
    }
}

/// It waits for the key of its own database, by name.
#[test]
fn a_call_stays_with_its_database() {
    let (server, mut c) = held();
    let mut there = server.connection_in(3);
    let mut third = Session::open_on(server.connection_in(3), "");
    hold(&mut there, &["k x"]);
    let mut first = Session::open(&server);
    first.queue(&mut c, "k b");
    third.queue(&mut there, "k y");
    third.stay(&server);
    run(&mut there, "LOCK.RELEASE k x").int();
    let told = third.told();
    assert_eq!(told, [granted(&mut there, 1, "k", "y")]);
    has(&mut c, "k", &["a"]);
    assert_eq!(server.count("queued"), 1);
    // The databases change places: `y` has the lock that `b` waits for.
    run(&mut c, "SWAPDB 0 3").okay();
    has(&mut c, "k", &["y"]);
    first.stay(&server);
    run(&mut c, "LOCK.RELEASE k y").int();
    assert_eq!(first.told(), [granted(&mut c, 1, "k", "b")]);
}

/// The replica and the file have the grants that the sessions were told of.
#[test]
fn replicas_and_the_aof_follow() {
    let (copies, mut c) = Copies::started();
    hold(&mut c, &["k a", "shared a SHARED"]);
    let mut session = Session::open(&copies);
    session.queue(&mut c, "k b");
    session.queue(&mut c, "shared b");
    session.queue(&mut c, "k c");
    session.stay(&copies);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
    session.stay(&copies);
    run(&mut c, "LOCK.RENEW shared a SHARED PX 30").grant();
    assert_eq!(session.told(), [granted(&mut c, 2, "shared", "b")]);
    copies.agree();
}

/// The lease of `k` ends in a pause, for which `b` has queued.
#[test]
fn a_pause_of_writes() {
    let (server, mut c, mut session, mut behind) = two_in_line();
    // Long enough for the pause to come before its end.
    run(&mut c, "LOCK.RENEW k a PX 1000").grant();
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    eventually(|| run(&mut c, "PTTL k").int() < 0, "the lease to end");
    sleep(Duration::from_millis(100));
    assert_eq!(session.number(&mut c, "events"), 0);
    assert_eq!(server.count("queued"), 1);
    run(&mut c, "CLIENT UNPAUSE").okay();
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
    run(&mut c, "LOCK.RELEASE k b").int();
    behind.granted();
}

/// A call that would be refused is refused when it is queued.
#[test]
fn a_call_is_refused_like_any_write() {
    let (server, mut c, session) = Session::held();
    run(&mut c, "CONFIG SET min-replicas-to-write 1").okay();
    session.ask(&mut c, "k b").refused("NOREPLICAS");
    session.ask(&mut c, "free b").refused("NOREPLICAS");
    assert_eq!(server.count("queued"), 0);
}

/// The time of a wait runs, and its end is told.
#[test]
fn a_wait_ends_in_a_pause() {
    let (_server, mut c, mut session) = Session::held();
    let words = session.line("LOCK.ACQUIRE k b QUEUE 700 SESSION ID HOLDS 1");
    run(&mut c, &words).int();
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    assert_eq!(session.events(1), ["1 ended k b timeout"]);
    run(&mut c, "CLIENT UNPAUSE").okay();
}
