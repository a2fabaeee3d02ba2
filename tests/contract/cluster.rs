//! In a cluster: the server's redirections, and locks on the slots of a node.

use crate::support::run;
use testbed::cluster::{SLOTS, slot};
use testbed::{Cluster, Expect, Server, cmd};

/// A key that the first of two nodes serves, and one that it does not.
fn keys() -> (String, String) {
    let of_half = |first: bool| {
        (0..1000)
            .map(|n| format!("key{n}"))
            .find(|key| (slot(key) < SLOTS / 2) == first)
            .expect("a key")
    };
    (of_half(true), of_half(false))
}

const CALLS: [&str; 6] = [
    "LOCK.ACQUIRE KEY a",
    "LOCK.ACQUIRE KEY a BLOCK 0",
    "LOCK.RENEW KEY a",
    "LOCK.FENCE KEY",
    "LOCK.INFO KEY",
    "LOCK.RELEASE KEY a",
];

#[test]
fn a_key_of_another_node_is_redirected_and_an_own_one_is_served() {
    let cluster = Cluster::start(2, 0);
    let mut c = cluster.node(0).connection();
    let (here, there) = keys();
    for call in CALLS {
        run(&mut c, &call.replace("KEY", &here)).value();
        let moved = run(&mut c, &call.replace("KEY", &there)).refused("MOVED");
        assert!(moved.ends_with(&cluster.address(1)), "{moved}");
    }
    run(&mut c, &format!("LOCK._APPLY {there} a 5 1 60000 -1")).refused("MOVED");
}

#[test]
fn the_token_clock_may_be_lifted_on_every_node() {
    let cluster = Cluster::start(2, 0);
    let mut c = cluster.node(0).connection();
    for token in 1..=20 {
        cmd!(c, "LOCK._CLOCK", token).okay();
    }
}

#[test]
fn a_node_without_slots_serves_no_lock() {
    let node = Server::builder().config("cluster-enabled", "yes").start();
    let mut c = node.connection();
    for call in CALLS {
        run(&mut c, &call.replace("KEY", "k")).refused("CLUSTERDOWN");
    }
}
