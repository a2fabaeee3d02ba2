//! While nothing may be written nothing is granted to a queued call; afterwards everything continues, in order.

use crate::support::{Session, granted, queued, run, wait};
use redis::Connection;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, Server, cmd, eventually, held};

/// Writes are held up in this way when the lease of `k` ends, for which `b` has queued.
#[track_caller]
fn goes_on_after(
    (server, mut c): (Server, Connection),
    hold_up: impl FnOnce(&mut Connection),
    end_it: impl FnOnce(&mut Connection),
) {
    let mut session = Session::open(&server);
    session.queue(&mut c, "k b");
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    session.stay(&server);
    // Long enough for the hold-up to come before its end.
    run(&mut c, "LOCK.RENEW k a PX 1000").grant();
    hold_up(&mut c);
    eventually(|| cmd!(c, "PTTL", "k").int() < 0, "the lease to end");
    sleep(Duration::from_millis(100));
    session.has_no_events(&mut c);
    assert_eq!(queued(&server), 1);
    end_it(&mut c);
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
    run(&mut c, "LOCK.RELEASE k b").int();
    behind.granted();
}

#[test]
fn a_pause_of_writes() {
    goes_on_after(
        held(),
        |c| run(c, "CLIENT PAUSE 60000 WRITE").okay(),
        |c| run(c, "CLIENT UNPAUSE").okay(),
    );
}

/// A call that would be refused is refused when it is queued.
#[test]
fn a_call_is_refused_like_any_write() {
    let (server, mut c, session) = Session::held();
    run(&mut c, "CONFIG SET min-replicas-to-write 1").okay();
    session.ask(&mut c, "k b").refused("NOREPLICAS");
    session.ask(&mut c, "free b").refused("NOREPLICAS");
    assert_eq!(queued(&server), 0);
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
