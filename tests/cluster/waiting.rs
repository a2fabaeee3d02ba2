//! A call that waits is granted only where a command on its key would be served at that moment, and
//! is sent after its slot otherwise.

use crate::support::{KEY, SLOT, call_off, held, sent, two_nodes, waiter};
use testbed::{Cluster, Expect, Talk, cmd, post};

#[test]
fn a_waiter_gets_the_lock_where_its_slot_is_served() {
    let (cluster, mut c) = two_nodes();
    for free in [["LOCK.RELEASE", KEY, "a"].as_slice(), &["DEL", KEY]] {
        cmd!(c, "LOCK.ACQUIRE", KEY, "a").grant();
        let mut waiter = waiter(cluster.node(1), "b");
        cmd!(c, free[0], free[1..]).int();
        assert_eq!(waiter.receive().grant().owner, b"b");
        cmd!(c, "LOCK.RELEASE", KEY, "b").int();
    }
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", 30).grant();
    assert_eq!(waiter(cluster.node(1), "b").receive().grant().owner, b"b");
}

#[test]
fn a_waiter_whose_lock_is_migrated_is_sent_after_it() {
    let (cluster, _, grant) = held();
    let mut waiter = waiter(cluster.node(1), "b");
    cluster.begin_move(SLOT, 1, 0);
    assert_eq!(cluster.carry_keys(SLOT, 1, 0), 1);
    let ask = sent("ASK", &cluster, 0);
    assert_eq!(waiter.receive().refused("ASK"), ask);
    let mut target = cluster.node(0).connection();
    cmd!(target, "ASKING").okay();
    let moved = cmd!(target, "LOCK.INFO", KEY).lock_info();
    assert_eq!((moved.owner, moved.token), (b"a".to_vec(), grant.token));
    cluster.end_move(SLOT, 1, 0);
    cmd!(target, "LOCK.RELEASE", KEY, "a").int();
    assert!(cmd!(target, "LOCK.ACQUIRE", KEY, "b").grant().token > grant.token);
}

#[test]
fn a_lock_that_becomes_free_on_a_migrating_slot_is_not_granted_there() {
    let (cluster, mut c) = two_nodes();
    for free in [["LOCK.RELEASE", KEY, "a"].as_slice(), &["DEL", KEY]] {
        cmd!(c, "LOCK.ACQUIRE", KEY, "a").grant();
        let mut waiter = waiter(cluster.node(1), "b");
        cluster.begin_move(SLOT, 1, 0);
        cmd!(c, free[0], free[1..]).int();
        waiter.receive().refused("ASK");
        cmd!(c, "LOCK.INFO", KEY).refused("ASK");
        call_off(&cluster);
    }
}

#[test]
fn a_lock_that_becomes_free_on_an_importing_slot_is_not_granted_there() {
    let cluster = Cluster::start(2, 0);
    cluster.set_slot(0, SLOT, "IMPORTING", 1);
    let mut c = cluster.node(0).connection();
    cmd!(c, "ASKING").okay();
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", 300).grant();
    let mut waiter = cluster.node(0).connection();
    cmd!(waiter, "ASKING").okay();
    post!(waiter, "LOCK.ACQUIRE", KEY, "b", "BLOCK", 0);
    let moved = sent("MOVED", &cluster, 1);
    assert_eq!(waiter.receive().refused("MOVED"), moved);
}
