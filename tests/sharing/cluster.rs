//! Shares, and calls that wait for them, where slots move.

use crate::holders::{Holder, holders_of};
use redis::Connection;
use std::time::Duration;
use testbed::{Cluster, Expect, Reply, Server, Talk, cmd, eventually, line, post};

const KEY: &str = "foo";
/// Its slot, which the last primary serves.
const SLOT: u16 = 12_182;
/// A bound for a busy machine, far below the leases.
const SOON: Duration = Duration::from_secs(10);

#[track_caller]
fn enter(c: &mut Connection, owner: &str, limit: u32) {
    cmd!(
        *c,
        "LOCK.ACQUIRE",
        KEY,
        owner,
        "LIMIT",
        limit,
        "PX",
        600_000
    )
    .grant();
}

#[track_caller]
fn wait<const N: usize>(node: &Server, owners: [&str; N], limit: u32) -> [Connection; N] {
    let mut c = node.connection();
    owners.map(|owner| {
        let before = cmd!(c, "LOCK.WAITERS", KEY).items().len();
        let mut waiter = node.connection();
        post!(
            waiter,
            "LOCK.ACQUIRE",
            KEY,
            owner,
            "LIMIT",
            limit,
            "PX",
            600_000,
            "BLOCK",
            0
        );
        eventually(
            || cmd!(c, "LOCK.WAITERS", KEY).items().len() > before,
            "the call to wait",
        );
        waiter
    })
}

#[track_caller]
fn answer(waiter: &mut Connection) -> Reply {
    waiter.set_read_timeout(Some(SOON)).expect("a time limit");
    waiter.receive()
}

fn owners(c: &mut Connection) -> Vec<String> {
    let name = |holder: &Holder| holder.name().to_owned();
    holders_of(c, KEY).iter().map(name).collect()
}

/// Begins to move the slot from node 1 to node 0.
fn begin_to_move(cluster: &Cluster) {
    let (from, to) = (cluster.id(1), cluster.id(0));
    let order = |node: usize, how: &str, id: &str| {
        let mut c = cluster.node(node).connection();
        cmd!(c, "CLUSTER", "SETSLOT", SLOT, how, id).okay();
    };
    order(0, "IMPORTING", &from);
    order(1, "MIGRATING", &to);
}

fn migrate(cluster: &Cluster) {
    let to = cluster.node(0).port();
    let mut c = cluster.node(1).connection();
    c.send(&line(&format!("MIGRATE 127.0.0.1 {to} {KEY} 0 5000")))
        .okay();
}

#[test]
fn shares_move_with_their_slot_and_those_in_line_are_sent_after_them() {
    let cluster = Cluster::start(2, 0);
    let mut c = cluster.node(1).connection();
    for owner in ["a", "b"] {
        enter(&mut c, owner, 2);
    }
    let mut waiters = wait(cluster.node(1), ["d", "e", "f"], 2);
    begin_to_move(&cluster);
    migrate(&cluster);
    for waiter in &mut waiters {
        answer(waiter).refused("ASK");
    }
    let mut there = cluster.node(0).connection();
    cmd!(there, "ASKING").okay();
    let told = cmd!(there, "LOCK.HOLDERS", KEY).items();
    assert_eq!(told.len(), 2);
    cmd!(there, "ASKING").okay();
    assert_eq!(cmd!(there, "LOCK.RELEASE", KEY, "a").int(), 0);
}

/// The node still serves the key while it is there: room goes to those in line.
#[test]
fn on_a_node_whose_slot_is_on_its_way_a_share_still_goes_to_the_next() {
    let cluster = Cluster::start(2, 0);
    let mut c = cluster.node(1).connection();
    for owner in ["a", "b"] {
        enter(&mut c, owner, 2);
    }
    let mut waiters = wait(cluster.node(1), ["d", "e"], 2);
    begin_to_move(&cluster);
    assert_eq!(cmd!(c, "LOCK.RELEASE", KEY, "a").int(), 0);
    answer(&mut waiters[0]).grant();
    assert_eq!(owners(&mut c), ["b", "d"]);
    migrate(&cluster);
    answer(&mut waiters[1]).refused("ASK");
}

/// Several grants are made, and the slot leaves, in one transaction: their replies are on the way.
#[test]
fn grants_on_their_way_are_answered_though_the_slot_leaves() {
    let cluster = Cluster::start(2, 0);
    let mut c = cluster.node(1).connection();
    enter(&mut c, "a", 1);
    let mut readers = wait(cluster.node(1), ["d", "e", "f"], 0);
    let [mut writer] = wait(cluster.node(1), ["writer"], 1);
    begin_to_move(&cluster);
    let to = cluster.node(0).port();
    let renew = format!("LOCK.RENEW {KEY} a SHARED");
    let move_it = format!("MIGRATE 127.0.0.1 {to} {KEY} 0 5000");
    for words in [&renew, &move_it] {
        c.post(&line(words));
    }
    c.receive().grant();
    c.receive().okay();
    let (mut granted, mut sent_on) = (0, 0);
    for reader in &mut readers {
        match answer(reader) {
            Ok(grant) => {
                grant.grant();
                granted += 1;
            }
            Err(refusal) => {
                assert_eq!(refusal.code(), "ASK");
                sent_on += 1;
            }
        }
    }
    assert!(
        granted >= 1,
        "the first inside the command; {sent_on} sent on"
    );
    answer(&mut writer).refused("ASK");
    let mut there = cluster.node(0).connection();
    cmd!(there, "ASKING").okay();
    assert_eq!(cmd!(there, "LOCK.HOLDERS", KEY).items().len(), 1 + granted);
}
