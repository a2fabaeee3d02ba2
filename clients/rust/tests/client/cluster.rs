//! In a cluster: by the key's slot, and after it where it goes.

use crate::support::{info, is_free, ms, settings, waiters};
use redis_lock_client::{Guard, Locks};
use std::collections::BTreeSet;
use std::time::Duration;
use testbed::{Cluster, cluster, within};

const PATIENCE: Duration = Duration::from_secs(60);

/// A locks that is told of one node.
fn locks(cluster: &Cluster, node: usize) -> Locks {
    settings()
        .reply_time(ms(500))
        .cluster([("127.0.0.1", cluster.node(node).port())])
        .expect("a locks")
}

fn waiting(locks: &Locks, key: &str) -> tokio::task::JoinHandle<Guard> {
    let lock = locks.lock(key).owner("next");
    tokio::spawn(async move { lock.acquire().await.expect("a lock") })
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lock_is_at_the_node_of_its_slot() {
    let cluster = Cluster::start(3, 0);
    let locks = locks(&cluster, 0);
    let mut nodes = BTreeSet::new();
    for number in 0..20 {
        let key = format!("lock:{number}");
        let guard = locks.lock(&key).acquire().await.expect("a lock");
        let node = cluster.serves(cluster::slot(&key));
        nodes.insert(node);
        assert_eq!(
            info(cluster.node(node), &key).owner,
            guard.owner().as_bytes()
        );
        let inner = guard.enter().await.expect("a hold");
        guard.check().await.expect("a renewal");
        let next = waiting(&locks, &key);
        within(
            PATIENCE,
            || waiters(cluster.node(node), &key).len() == 1,
            "a waiter",
        );
        inner.release().await.expect("a release");
        guard.release().await.expect("a release");
        next.await
            .expect("a task")
            .release()
            .await
            .expect("a release");
        assert!(is_free(cluster.node(node), &key));
    }
    assert_eq!(nodes, BTreeSet::from([0, 1, 2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_and_its_line_follow_their_slot() {
    let cluster = Cluster::start(2, 0);
    let locks = locks(&cluster, 0);
    let slot = cluster::slot("k");
    let (from, to) = (cluster.serves(slot), 1 - cluster.serves(slot));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let next = waiting(&locks, "k");
    within(
        PATIENCE,
        || waiters(cluster.node(from), "k").len() == 1,
        "a waiter",
    );

    cluster.begin_move(slot, from, to);
    assert_eq!(cluster.carry_keys(slot, from, to), 1);
    // The key is there and the slot is not: the way is by ASK.
    guard.check().await.expect("a renewal");
    guard
        .enter()
        .await
        .expect("a hold")
        .release()
        .await
        .expect("a release");
    cluster.end_move(slot, from, to);
    guard.check().await.expect("a renewal");
    within(
        PATIENCE,
        || waiters(cluster.node(to), "k") == ["next"],
        "the waiter to follow",
    );
    guard.release().await.expect("a release");
    let next = next.await.expect("a task");
    assert_eq!(info(cluster.node(to), "k").owner, b"next");
    next.release().await.expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_taken_and_waited_for_while_its_slot_moves() {
    let cluster = Cluster::start(2, 0);
    let locks = locks(&cluster, 0);
    let slot = cluster::slot("k");
    let (from, to) = (cluster.serves(slot), 1 - cluster.serves(slot));
    cluster.begin_move(slot, from, to);
    // There is no such key: it comes to be where the slot goes.
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let next = waiting(&locks, "k");
    cluster.end_move(slot, from, to);
    within(
        PATIENCE,
        || waiters(cluster.node(to), "k") == ["next"],
        "a waiter",
    );
    guard.release().await.expect("a release");
    next.await
        .expect("a task")
        .release()
        .await
        .expect("a release");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over() {
    let mut cluster = Cluster::start(3, 1);
    let slot = cluster::slot("k");
    let old = cluster.serves(slot);
    let new = cluster.replicas_of(old)[0];
    // The only node that the client is told of is the one that dies.
    let locks = locks(&cluster, old);
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let next = waiting(&locks, "k");
    within(
        PATIENCE,
        || waiters(cluster.node(old), "k").len() == 1,
        "a waiter",
    );
    cluster.node(old).wait_for_sync(cluster.node(new));
    cluster.node_mut(old).kill9();
    cluster.wait_until_primary(new);
    within(
        PATIENCE,
        || waiters(cluster.node(new), "k") == ["next"],
        "the waiter to follow",
    );
    guard.check().await.expect("the grant has come along");
    guard.release().await.expect("a release");
    next.await
        .expect("a task")
        .release()
        .await
        .expect("a release");
}
