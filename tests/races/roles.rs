//! A primary becomes a replica, with waiters and with a grant on its way, and a primary again.

use crate::ends::{Together, has_it_at_once, is_closed};
use redis::Value;
use std::thread::sleep;
use std::time::Duration;
use testbed::state::assert_same;
use testbed::{
    Copies, Expect, Server, Talk, Waiter, at_once, blocked_clients, cmd, eventually, info,
    nobody_waits, run, wait, wait_as,
};

/// The waiter is told that it waits no more, and its connection is closed.
#[track_caller]
fn is_sent_away(waiter: &mut Waiter) {
    waiter.receive().refused("UNBLOCKED");
}

/// Following nobody: a port on which no server listens.
const ASTRAY: &str = "REPLICAOF 127.0.0.1 1";

/// The grant is on its way to a client that is sent away by the change of the role.
#[test]
fn a_grant_on_its_way_is_given_back_when_it_is_a_primary_again_at_once() {
    let (copies, mut c) = Copies::started();
    for together in Together::ALL {
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let mut waiters = wait_as(&copies, ["b", "c"]);
        together.send(&mut c, &["LOCK.RELEASE k a", ASTRAY, "REPLICAOF NO ONE"]);
        waiters.iter_mut().for_each(is_sent_away);
        let mut is_free = || run(&mut c, "LOCK.INFO k").value() == Value::Nil;
        eventually(&mut is_free, "the lock to be free");
        nobody_waits(&copies);
    }
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

/// The lock is another server's to free from then on. Here its lease brings it to its end.
#[test]
fn a_grant_on_its_way_ends_with_its_lease_when_the_server_stayed_a_replica() {
    let (server, mut c) = Server::builder().config("appendonly", "yes").held();
    let mut first = wait(&server, "k b PX 1500 BLOCK 0");
    at_once(&mut c, &["LOCK.RELEASE k a", ASTRAY]);
    is_sent_away(&mut first);
    assert_eq!(blocked_clients(&server), 0);
    assert_eq!(info(&mut c).owner, b"b");
    run(&mut c, "REPLICAOF NO ONE").okay();
    let [mut next] = wait_as(&server, ["d"]);
    has_it_at_once(&mut next);
    // And nothing is owed any more.
    assert_eq!(run(&mut c, "LOCK.RENEW k d").grant().holds, 1);
}

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
    let (ours, copied) = (primary.whole_state(), replica.whole_state());
    assert_same(&ours, &copied, "on the replica");
}
