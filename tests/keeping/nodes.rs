//! The server stops being primary, or the lock's slot leaves it; a successor keeps nothing until it is asked.

use crate::support::{Keeper, await_renewals, count, kept_by, run};
use testbed::{Cluster, Expect, Failover, Server, cmd, eventually};

#[test]
fn a_server_that_becomes_a_replica_closes() {
    let primary = Server::start();
    let other = Server::start();
    let mut c = primary.connection();
    let mut keeper = Keeper::on(&primary, "k a PX 60000 KEEP 60000");
    let mut second = Keeper::on(&primary, "j a PX 60000 KEEP 60000");
    cmd!(c, "REPLICAOF", "127.0.0.1", other.port()).okay();
    for keeper in [&mut keeper, &mut second] {
        keeper.throw(&["PING"]);
        keeper.is_closed();
    }
    assert_eq!(count(&primary, "kept"), 0);
    // It keeps nothing when it is a primary again.
    run(&mut c, "REPLICAOF NO ONE").okay();
    assert_eq!(count(&primary, "kept"), 0);
}

/// By the keeper's own hand.
#[test]
fn who_makes_the_server_a_replica_hears_it_after_the_reply() {
    let primary = Server::start();
    let mut keeper = Keeper::on(&primary, "k a PX 60000 KEEP 60000");
    run(&mut keeper, "REPLICAOF 127.0.0.1 1").okay();
    keeper.is_closed();
}

#[test]
fn a_successor_keeps_nothing_until_it_is_asked() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut keeper = Keeper::of(primary.connection());
    let token = keeper.acquire("k a PX 60000 KEEP 60000").token;
    primary.wait_for_sync(&replica);
    cmd!(
        primary.connection(),
        "FAILOVER",
        "TO",
        "127.0.0.1",
        replica.port()
    )
    .okay();
    keeper.is_closed();
    eventually(
        || replica.info_field("replication", "role") == "master",
        "the failover",
    );
    let mut c = replica.connection();
    assert_eq!(kept_by(&mut c), [(0, 0)]);
    let mut keeper = Keeper::of(replica.connection());
    let back = cmd!(
        *keeper,
        "LOCK.RENEW",
        "k",
        "a",
        "TOKEN",
        token,
        "PX",
        1500,
        "KEEP",
        60_000
    );
    assert_eq!(back.grant().token, token);
    await_renewals(&replica, 2);
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
}

#[test]
fn after_a_restart_nothing_is_kept() {
    let mut server = Server::builder().config("appendonly", "yes").start();
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 60000");
    server.restart();
    keeper.is_closed();
    assert_eq!(kept_by(&mut server.connection()), [(0, 0)]);
    assert_eq!(count(&server, "kept"), 0);
}

const KEY: &str = "foo";
const SLOT: u16 = 12_182;

/// The slot goes key by key.
#[test]
fn a_slot_that_moves_closes() {
    let cluster = Cluster::start(2, 0);
    let mut keeper = Keeper::on(cluster.node(1), "foo a PX 60000 KEEP 60000");
    let mut other = Keeper::on(cluster.node(1), "{other}k a PX 60000 KEEP 60000");
    cluster.move_slot(SLOT, 1, 0);
    keeper.throw(&["PING"]);
    keeper.is_closed();
    other.is_answered();
    let mut c = cluster.node(0).connection();
    let holders = cmd!(c, "LOCK.HOLDERS", KEY).items();
    assert_eq!(holders.len(), 1);
    // There it can be kept again.
    let mut keeper = Keeper::of(cluster.node(0).connection());
    keeper.renew("foo a PX 1000 KEEP 60000");
    await_renewals(cluster.node(0), 2);
    keeper.is_answered();
}

/// Another node takes the slot as after a split.
#[test]
fn a_slot_that_is_taken_closes() {
    let cluster = Cluster::start(2, 0);
    let mut keeper = Keeper::on(cluster.node(1), "foo a PX 60000 KEEP 60000");
    cluster.set_slot(0, SLOT, "NODE", 0);
    cmd!(cluster.node(0).connection(), "CLUSTER", "BUMPEPOCH").text();
    keeper.is_closed();
}

/// A failover in a cluster.
#[test]
fn a_node_that_becomes_a_replica_closes() {
    let cluster = Cluster::start(3, 3);
    let node = cluster.serves(SLOT);
    let mut keeper = Keeper::on(cluster.node(node), "foo a PX 60000 KEEP 60000");
    let replica = cluster.replicas_of(node)[0];
    cluster.fail_over(replica, Failover::Agreed);
    keeper.is_closed();
    cluster.wait_until_primary(replica);
    assert_eq!(count(cluster.node(replica), "kept"), 0);
}
