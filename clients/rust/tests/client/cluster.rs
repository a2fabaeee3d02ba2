//! In a cluster: by the key's slot, and after it where it goes.

use crate::support::*;
use redis_lock_client::Locks;
use std::collections::BTreeSet;
use testbed::{Cluster, cluster, within};

/// Locks that are told of one node.
fn locks_in(cluster: &Cluster, node: usize) -> Locks {
    let nodes = [("127.0.0.1", cluster.node(node).port())];
    settings().cluster(nodes).expect("locks")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lock_is_at_the_node_of_its_slot() {
    let cluster = Cluster::start(3, 0);
    let locks = locks_in(&cluster, 0);
    let mut nodes = BTreeSet::new();
    for number in 0..12 {
        let key = format!("lock:{number}");
        let guard = locks.lock(&key).acquire().await.expect("a lock");
        let node = cluster.serves(cluster::slot(&key));
        nodes.insert(node);
        assert_eq!(
            info(cluster.node(node), &key).owner,
            guard.owner().as_bytes()
        );
        let next = in_line(cluster.node(node), &locks.lock(&key), 1);
        guard.release().await.expect("a release");
        granted(next).await.release().await.expect("a release");
        assert!(is_free(cluster.node(node), &key));
    }
    assert_eq!(nodes, BTreeSet::from([0, 1, 2]));
    for node in cluster.nodes() {
        assert_eq!(sessions(node).len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_and_its_line_follow_their_slot() {
    let cluster = Cluster::start(2, 0);
    let locks = locks_in(&cluster, 0);
    let slot = cluster::slot("k");
    let (from, to) = (cluster.serves(slot), 1 - cluster.serves(slot));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let next = in_line(cluster.node(from), &locks.lock("k"), 1);
    cluster.begin_move(slot, from, to);
    assert_eq!(cluster.carry_keys(slot, from, to), 1);
    // The key is there and the slot is not: the way is by ASK.
    guard.check().await.expect("held");
    cluster.end_move(slot, from, to);
    guard.check().await.expect("held");
    within(
        LONG,
        || testbed::waiters(&mut cluster.node(to).connection(), "k").len() == 1,
        "the waiter to follow",
    );
    within(LONG, || guard.is_held(), "certainty");
    guard.release().await.expect("a release");
    let next = granted(next).await;
    assert_eq!(info(cluster.node(to), "k").owner, next.owner().as_bytes());
    next.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over() {
    let mut cluster = Cluster::start(3, 1);
    let slot = cluster::slot("k");
    let old = cluster.serves(slot);
    let new = cluster.replicas_of(old)[0];
    // The only node that the client is told of is the one that dies.
    let locks = locks_in(&cluster, old);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let next = in_line(cluster.node(old), &locks.lock("k"), 1);
    cluster.node(old).wait_for_sync(cluster.node(new));
    cluster.node_mut(old).kill9();
    cluster.wait_until_primary(new);
    within(
        LONG,
        || testbed::waiters(&mut cluster.node(new).connection(), "k").len() == 1,
        "the waiter to follow",
    );
    guard.check().await.expect("the grant has come along");
    guard.release().await.expect("a release");
    granted(next).await.release().await.expect("a release");
}
