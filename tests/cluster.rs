//! Waiting on a node of a cluster: a call is granted only where a command on its key would be
//! served at that moment, and is sent after its slot otherwise.

use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, post};

/// The slot of the key that these tests lock.
const SLOT: u16 = 12182;
const KEY: &str = "foo";

/// Two nodes, each with half of the slots; the second serves [`KEY`].
struct Cluster {
    nodes: [Server; 2],
}

impl Cluster {
    fn start() -> Self {
        let nodes = [node(), node()];
        for (node, slots) in nodes.iter().zip([[0, 8191], [8192, 16383]]) {
            cmd!(
                node.connection(),
                "CLUSTER",
                "ADDSLOTSRANGE",
                slots[0],
                slots[1]
            )
            .okay();
        }
        let port = nodes[0].port();
        cmd!(nodes[1].connection(), "CLUSTER", "SET-CONFIG-EPOCH", 2).okay();
        cmd!(nodes[1].connection(), "CLUSTER", "MEET", "127.0.0.1", port).okay();
        for node in &nodes {
            eventually(
                || {
                    let state = cmd!(node.connection(), "CLUSTER", "INFO").text();
                    state.contains("cluster_state:ok") && state.contains("cluster_known_nodes:2")
                },
                "the cluster to come up",
            );
        }
        Self { nodes }
    }

    fn id(&self, node: usize) -> String {
        cmd!(self.nodes[node].connection(), "CLUSTER", "MYID").text()
    }

    fn set_slot(&self, node: usize, state: &str, other: usize) {
        let id = self.id(other);
        cmd!(
            self.nodes[node].connection(),
            "CLUSTER",
            "SETSLOT",
            SLOT,
            state,
            id
        )
        .okay();
    }

    fn address(&self, node: usize) -> String {
        format!("127.0.0.1:{}", self.nodes[node].port())
    }

    fn waiter(&self, node: usize, owner: &str) -> Connection {
        let mut waiter = self.nodes[node].connection();
        post!(waiter, "LOCK.ACQUIRE", KEY, owner, "BLOCK", 0);
        let mut c = self.nodes[node].connection();
        eventually(
            || cmd!(c, "LOCK.WAITERS", KEY).items().len() == 1,
            "the call to wait",
        );
        waiter
    }
}

fn node() -> Server {
    Server::builder()
        .config("cluster-enabled", "yes")
        .config("cluster-node-timeout", "2000")
        .start()
}

#[test]
fn a_waiter_gets_the_lock_where_its_slot_is_served() {
    let cluster = Cluster::start();
    let mut c = cluster.nodes[1].connection();
    for free in [["LOCK.RELEASE", KEY, "a"].as_slice(), &["DEL", KEY]] {
        cmd!(c, "LOCK.ACQUIRE", KEY, "a").grant();
        let mut waiter = cluster.waiter(1, "b");
        cmd!(c, free[0], free[1..]).int();
        assert_eq!(waiter.receive().grant().owner, b"b");
        cmd!(c, "LOCK.RELEASE", KEY, "b").int();
    }
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", 30).grant();
    assert_eq!(cluster.waiter(1, "b").receive().grant().owner, b"b");
}

#[test]
fn a_waiter_whose_lock_is_migrated_is_sent_after_it() {
    let cluster = Cluster::start();
    let mut c = cluster.nodes[1].connection();
    let grant = cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", 60_000).grant();
    let mut waiter = cluster.waiter(1, "b");
    cluster.set_slot(0, "IMPORTING", 1);
    cluster.set_slot(1, "MIGRATING", 0);
    cmd!(
        c,
        "MIGRATE",
        "127.0.0.1",
        cluster.nodes[0].port(),
        KEY,
        0,
        5000
    )
    .okay();
    let ask = format!("ASK {SLOT} {}", cluster.address(0));
    assert_eq!(waiter.receive().refused("ASK"), ask);
    let mut target = cluster.nodes[0].connection();
    cmd!(target, "ASKING").okay();
    let moved = cmd!(target, "LOCK.INFO", KEY).lock_info();
    assert_eq!((moved.owner, moved.token), (b"a".to_vec(), grant.token));
    for node in [0, 1] {
        cluster.set_slot(node, "NODE", 0);
    }
    cmd!(target, "LOCK.RELEASE", KEY, "a").int();
    assert!(cmd!(target, "LOCK.ACQUIRE", KEY, "b").grant().token > grant.token);
}

#[test]
fn a_lock_that_becomes_free_on_a_migrating_slot_is_not_granted_there() {
    let cluster = Cluster::start();
    let mut c = cluster.nodes[1].connection();
    for free in [["LOCK.RELEASE", KEY, "a"].as_slice(), &["DEL", KEY]] {
        cmd!(c, "LOCK.ACQUIRE", KEY, "a").grant();
        let mut waiter = cluster.waiter(1, "b");
        cluster.set_slot(0, "IMPORTING", 1);
        cluster.set_slot(1, "MIGRATING", 0);
        cmd!(c, free[0], free[1..]).int();
        waiter.receive().refused("ASK");
        cmd!(c, "LOCK.INFO", KEY).refused("ASK");
        for node in [0, 1] {
            cmd!(
                cluster.nodes[node].connection(),
                "CLUSTER",
                "SETSLOT",
                SLOT,
                "STABLE"
            )
            .okay();
        }
    }
}

#[test]
fn a_lock_that_becomes_free_on_an_importing_slot_is_not_granted_there() {
    let cluster = Cluster::start();
    cluster.set_slot(0, "IMPORTING", 1);
    let mut c = cluster.nodes[0].connection();
    cmd!(c, "ASKING").okay();
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", 300).grant();
    let mut waiter = cluster.nodes[0].connection();
    cmd!(waiter, "ASKING").okay();
    post!(waiter, "LOCK.ACQUIRE", KEY, "b", "BLOCK", 0);
    let moved = format!("MOVED {SLOT} {}", cluster.address(1));
    assert_eq!(waiter.receive().refused("MOVED"), moved);
}

#[test]
fn a_waiter_whose_slot_was_given_away_is_sent_after_it() {
    let cluster = Cluster::start();
    let mut c = cluster.nodes[1].connection();
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", 400).grant();
    let mut waiter = cluster.waiter(1, "b");
    cluster.set_slot(0, "IMPORTING", 1);
    cluster.set_slot(1, "MIGRATING", 0);
    cmd!(c, "DEL", KEY).int();
    waiter.receive().refused("ASK");
    for node in [0, 1] {
        cluster.set_slot(node, "NODE", 0);
    }
    cmd!(c, "LOCK.ACQUIRE", KEY, "b").refused("MOVED");
}
