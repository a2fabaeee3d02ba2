//! In a cluster: the server's redirections, and locks on the slots of a node.

use crate::support::run;
use redis::Connection;
use testbed::{Expect, Server, cmd, eventually};

const SLOTS: i64 = 16_384;

fn node() -> Server {
    Server::builder().config("cluster-enabled", "yes").start()
}

fn state_is_ok(c: &mut Connection) -> bool {
    let info = cmd!(*c, "CLUSTER", "INFO").text();
    info.contains("cluster_state:ok") && info.contains(&format!("cluster_slots_ok:{SLOTS}"))
}

/// Two nodes with a half of the slots each.
fn two_nodes() -> [Server; 2] {
    let nodes = [node(), node()];
    let mut connections = nodes.each_ref().map(Server::connection);
    let halves = [(0, SLOTS / 2 - 1), (SLOTS / 2, SLOTS - 1)];
    for (c, (first, last)) in connections.iter_mut().zip(halves) {
        cmd!(*c, "CLUSTER", "ADDSLOTSRANGE", first, last).okay();
    }
    let [first, second] = &mut connections;
    cmd!(*second, "CLUSTER", "SET-CONFIG-EPOCH", 2).okay();
    cmd!(*first, "CLUSTER", "MEET", "127.0.0.1", nodes[1].port()).okay();
    eventually(
        || connections.iter_mut().all(state_is_ok),
        "the cluster to be whole",
    );
    nodes
}

/// A key that the first node serves, and one that it does not.
fn keys(c: &mut Connection) -> (String, String) {
    let mut of_half = |first: bool| {
        (0..1000)
            .map(|n| format!("key{n}"))
            .find(|key| (cmd!(*c, "CLUSTER", "KEYSLOT", key).int() < SLOTS / 2) == first)
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
    let nodes = two_nodes();
    let mut c = nodes[0].connection();
    let (here, there) = keys(&mut c);
    for call in CALLS {
        run(&mut c, &call.replace("KEY", &here)).value();
        let moved = run(&mut c, &call.replace("KEY", &there)).refused("MOVED");
        assert!(moved.ends_with(&format!(":{}", nodes[1].port())), "{moved}");
    }
    run(&mut c, &format!("LOCK._APPLY {there} a 5 1 60000 -1")).refused("MOVED");
}

#[test]
fn the_token_clock_may_be_lifted_on_every_node() {
    let nodes = two_nodes();
    let mut c = nodes[0].connection();
    for token in 1..=20 {
        cmd!(c, "LOCK._CLOCK", token).okay();
    }
}

#[test]
fn a_node_without_slots_serves_no_lock() {
    let node = node();
    let mut c = node.connection();
    for call in CALLS {
        run(&mut c, &call.replace("KEY", "k")).refused("CLUSTERDOWN");
    }
}
