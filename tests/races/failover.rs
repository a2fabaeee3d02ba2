//! `FAILOVER` with waiters, across a lease's end, and with a give-back due.

use crate::ends::{has_it_at_once, is_closed};
use crate::support::{at_once, at_one_moment, info, nobody_waits, queue, run, wait_as};
use std::thread::sleep;
use std::time::Duration;
use testbed::state::assert_same;
use testbed::{Expect, Server, Talk, cmd, eventually};

/// A primary with one replica that is stopped, so that a failover does not come to its end.
fn stopped_replica() -> (Server, Server) {
    let primary = Server::builder().config("appendonly", "yes").start();
    let replica = primary.replica();
    replica.signal("STOP");
    (primary, replica)
}

#[test]
fn a_lease_that_ends_in_a_failover_goes_on_when_that_is_aborted() {
    let (primary, replica) = stopped_replica();
    let mut c = primary.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first] = wait_as(&primary, ["b"]);
    at_one_moment(&mut c, &["LOCK.RENEW k a PX 200", "FAILOVER"]);
    eventually(|| cmd!(c, "EXISTS", "k").int() == 0, "the lease to end");
    sleep(Duration::from_millis(50));
    assert!(first.is_blocked(&mut c));
    cmd!(c, "FAILOVER", "ABORT").okay();
    has_it_at_once(&mut first);
    replica.signal("CONT");
    primary.wait_for_sync(&replica);
    assert_same(
        &primary.whole_state(),
        &replica.whole_state(),
        "on the replica",
    );
}

#[test]
fn a_give_back_that_is_due_in_a_failover_comes_when_that_is_aborted() {
    let (primary, replica) = stopped_replica();
    let mut c = primary.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, mut second] = wait_as(&primary, ["b", "c"]);
    let kill = format!("CLIENT KILL ID {}", first.id);
    at_once(&mut c, &["LOCK.RELEASE k a", &kill, "FAILOVER"]);
    is_closed(&mut first);
    sleep(Duration::from_millis(50));
    assert!(second.is_blocked(&mut c));
    cmd!(c, "FAILOVER", "ABORT").okay();
    has_it_at_once(&mut second);
    assert_eq!(info(&mut c).owner, b"c");
    replica.signal("CONT");
    primary.wait_for_sync(&replica);
    assert_same(
        &primary.whole_state(),
        &replica.whole_state(),
        "on the replica",
    );
}

#[test]
fn a_failover_sends_the_waiters_away_and_keeps_the_grants() {
    let primary = Server::builder().config("appendonly", "yes").start();
    let replica = primary.replica();
    let mut c = primary.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut waiters = wait_as(&primary, ["b", "c"]);
    let replies = at_once(&mut c, &["LOCK.RELEASE k a", "FAILOVER"]);
    for reply in replies {
        reply.value();
    }
    let told = waiters[0].granted();
    waiters[1].receive().refused("UNBLOCKED");
    eventually(
        || replica.info_field("replication", "role") == "master",
        "the replica to be the primary",
    );
    nobody_waits(&primary);
    replica.wait_for_sync(&primary);
    let mut c = replica.connection();
    assert_eq!(
        (info(&mut c).owner, info(&mut c).token),
        (b"b".to_vec(), told.token)
    );
    // The new primary hands over as the old one did.
    let [mut next] = wait_as(&replica, ["d"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
    assert!(next.granted().token > told.token);
    assert_eq!(queue(&mut c), [""; 0]);
    replica.wait_for_sync(&primary);
    assert_same(
        &replica.whole_state(),
        &primary.whole_state(),
        "on the old primary",
    );
}
