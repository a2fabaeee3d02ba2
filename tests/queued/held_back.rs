//! While nothing may be written nothing is granted to a queued call; afterwards everything continues, in order.

use crate::support::granted;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, Session, eventually, run, wait};

/// The lease of `k` ends in a pause, for which `b` has queued.
#[test]
fn a_pause_of_writes() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    session.stay(&server);
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
