//! A primary becomes a replica, with waiters and with a grant on its way, and a primary again.

use crate::copies::Copies;
use crate::ends::{Together, has_it_at_once};
use crate::support::{
    Waiter, at_once, at_one_moment, blocked_clients, info, nobody_waits, run, wait_as,
};
use redis::Value;
use testbed::{Expect, Server, Talk, cmd, eventually};

/// The waiter is told that it waits no more, and its connection is closed.
#[track_caller]
fn is_sent_away(waiter: &mut Waiter) {
    waiter.receive().refused("UNBLOCKED");
}

/// Following nobody: a port on which no server listens.
const ASTRAY: &str = "REPLICAOF 127.0.0.1 1";

#[test]
fn waiters_are_sent_away_and_others_wait_when_it_is_a_primary_again() {
    let copies = Copies::start();
    let mut c = copies.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut waiters = wait_as(&copies, ["b", "c"]);
    run(&mut c, ASTRAY).okay();
    waiters.iter_mut().for_each(is_sent_away);
    nobody_waits(&copies);
    run(&mut c, "LOCK.ACQUIRE k b BLOCK 0").refused("READONLY");
    run(&mut c, "REPLICAOF NO ONE").okay();
    let [mut first] = wait_as(&copies, ["d"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    has_it_at_once(&mut first);
    copies.agree();
}

#[test]
fn a_lease_that_ends_on_a_replica_grants_nobody_anything() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut waiters = wait_as(&server, ["b", "c"]);
    let token = server.last_token();
    at_one_moment(&mut c, &["LOCK.RENEW k a PX 100", ASTRAY]);
    waiters.iter_mut().for_each(is_sent_away);
    eventually(|| cmd!(c, "PTTL", "k").int() < 0, "the lease to end");
    assert_eq!(server.last_token(), token);
}

/// The grant is on its way to a client that is sent away by the change of the role.
#[test]
fn a_grant_on_its_way_is_given_back_when_it_is_a_primary_again_at_once() {
    let copies = Copies::start();
    let mut c = copies.connection();
    for together in Together::ALL {
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let mut waiters = wait_as(&copies, ["b", "c"]);
        together.send(&mut c, &["LOCK.RELEASE k a", ASTRAY, "REPLICAOF NO ONE"]);
        waiters.iter_mut().for_each(is_sent_away);
        eventually(
            || run(&mut c, "LOCK.INFO k").value() == Value::Nil,
            "the lock to be free",
        );
        nobody_waits(&copies);
    }
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

/// The lock is another server's to free from then on. Here its lease brings it to its end.
#[test]
fn a_grant_on_its_way_ends_with_its_lease_when_the_server_stayed_a_replica() {
    let server = Server::builder().config("appendonly", "yes").start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let call = "LOCK.ACQUIRE k b PX 1500 BLOCK 0";
    let mut first = Waiter::on(&server, server.connection(), &crate::support::line(call));
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

#[test]
fn a_primary_that_becomes_a_replica_of_its_replica_takes_what_that_holds() {
    let first = Server::start();
    let second = first.replica();
    let mut c = first.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "LOCK.ACQUIRE other a PX 600000").grant();
    let mut waiters = wait_as(&first, ["b", "c"]);
    first.wait_for_sync(&second);
    run(&mut second.connection(), "REPLICAOF NO ONE").okay();
    assert_eq!(run(&mut second.connection(), "LOCK.RELEASE k a").int(), 0);
    let follow = format!("REPLICAOF 127.0.0.1 {}", second.port());
    at_once(&mut c, &["LOCK.RELEASE k a", &follow]);
    waiters.iter_mut().for_each(is_sent_away);
    second.wait_for_sync(&first);
    run(&mut c, "LOCK.INFO k").nil();
    assert_eq!(run(&mut c, "LOCK.INFO other").lock_info().owner, b"a");
    nobody_waits(&first);
}
