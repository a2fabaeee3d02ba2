//! Shares, and calls that wait for them, where slots move.

use crate::support::{KEY, SLOT, answer, two_nodes};
use redis::Connection;
use testbed::{Cluster, Expect, Server, Talk, Waiter, cmd, holders, post_all, run, wait};

#[track_caller]
fn enter(c: &mut Connection, owner: &str, limit: &str) {
    run(c, &format!("LOCK.ACQUIRE {KEY} {owner} {limit} PX 600000")).grant();
}

/// Two of two places are taken.
#[track_caller]
fn shared() -> (Cluster, Connection) {
    let (cluster, mut c) = two_nodes();
    for owner in ["a", "b"] {
        enter(&mut c, owner, "LIMIT 2");
    }
    (cluster, c)
}

#[track_caller]
fn line_up<const N: usize>(node: &Server, owners: [&str; N], limit: &str) -> [Waiter; N] {
    owners.map(|owner| wait(node, &format!("{KEY} {owner} {limit} PX 600000 BLOCK 0")))
}

#[test]
fn shares_move_with_their_slot_and_those_in_line_are_sent_after_them() {
    let (cluster, _) = shared();
    let mut waiters = line_up(cluster.node(1), ["d", "e", "f"], "LIMIT 2");
    cluster.begin_move(SLOT, 1, 0);
    cluster.carry_keys(SLOT, 1, 0);
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
    let (cluster, mut c) = shared();
    let mut waiters = line_up(cluster.node(1), ["d", "e"], "LIMIT 2");
    cluster.begin_move(SLOT, 1, 0);
    assert_eq!(cmd!(c, "LOCK.RELEASE", KEY, "a").int(), 0);
    answer(&mut waiters[0]).grant();
    assert_eq!(holders(&mut c, KEY), ["b", "d"]);
    cluster.carry_keys(SLOT, 1, 0);
    answer(&mut waiters[1]).refused("ASK");
}

/// Several grants are made, and the slot leaves, in one transaction: their replies are on the way.
#[test]
fn grants_on_their_way_are_answered_though_the_slot_leaves() {
    let (cluster, mut c) = two_nodes();
    enter(&mut c, "a", "");
    let mut readers = line_up(cluster.node(1), ["d", "e", "f"], "SHARED");
    let [mut writer] = line_up(cluster.node(1), ["writer"], "");
    cluster.begin_move(SLOT, 1, 0);
    let to = cluster.node(0).port();
    let renew = format!("LOCK.RENEW {KEY} a SHARED");
    let move_it = format!("MIGRATE 127.0.0.1 {to} {KEY} 0 5000");
    post_all(&mut c, [renew, move_it]);
    c.receive().grant();
    c.receive().okay();
    let mut granted = 0;
    for reader in &mut readers {
        match answer(reader) {
            Ok(grant) => {
                grant.grant();
                granted += 1;
            }
            Err(refusal) => assert_eq!(refusal.code(), "ASK"),
        }
    }
    assert!(granted >= 1, "the first inside the command");
    answer(&mut writer).refused("ASK");
    let mut there = cluster.node(0).connection();
    cmd!(there, "ASKING").okay();
    assert_eq!(cmd!(there, "LOCK.HOLDERS", KEY).items().len(), 1 + granted);
}
