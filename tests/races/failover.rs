//! `FAILOVER` with a give-back due.

use crate::ends::{has_it_at_once, is_closed};
use std::thread::sleep;
use std::time::Duration;
use testbed::state::assert_same;
use testbed::{Expect, Server, at_once, cmd, info, run, wait_as};

/// A primary with one replica that is stopped, so that a failover does not come to its end.
fn stopped_replica() -> (Server, Server) {
    let primary = Server::builder().config("appendonly", "yes").start();
    let replica = primary.replica();
    replica.signal("STOP");
    (primary, replica)
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
