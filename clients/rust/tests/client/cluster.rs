//! In a cluster: by the key's slot, and after it where it goes.

use crate::support::*;
use redis_lock_client::{Builder, ErrorKind, Locks, Observer};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use testbed::{Cluster, Expect, cluster, cmd, eventually, within};

/// The servers whose connection is broken.
#[derive(Clone, Default)]
struct Broken(Arc<Mutex<BTreeSet<String>>>);

impl Observer for Broken {
    fn connection(&self, server: &str, broken: Option<&str>) {
        let mut servers = self.0.lock().expect("no panic");
        servers.remove(server);
        servers.extend(broken.map(|_| server.to_owned()));
    }
}

/// Locks that are told of one node.
fn locks_in(cluster: &Cluster, node: usize, settings: Builder) -> Locks {
    let nodes = [("127.0.0.1", cluster.node(node).port())];
    settings.cluster(nodes).expect("locks")
}

#[tokio::test(flavor = "multi_thread")]
async fn each_lock_is_at_the_node_of_its_slot() {
    let cluster = Cluster::start(3, 0);
    let locks = locks_in(&cluster, 0, settings());
    let mut nodes = BTreeSet::new();
    for number in 0..12 {
        let key = format!("lock:{number}");
        let guard = locks.lock(&key).acquire().await.expect("a lock");
        let node = cluster.serves(cluster::slot(&key));
        nodes.insert(node);
        let info = info(cluster.node(node), &key);
        assert_eq!(info.owner, guard.owner().as_bytes());
        guard.release().await.expect("a release");
        assert!(is_free(cluster.node(node), &key));
    }
    assert_eq!(nodes, BTreeSet::from([0, 1, 2]));
    for node in cluster.nodes() {
        assert_eq!(sessions(node).len(), 1);
    }
}

/// The locks of nodes that all hang are lost in time, however many they are, and close does not wait for them.
#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_hang() {
    let cluster = Cluster::start(2, 0);
    let settings = settings().lease(ms(1000)).reply_time(ms(500));
    let locks = locks_in(&cluster, 0, settings);
    let mut guards = Vec::new();
    for number in 0..40 {
        let lock = locks.lock(format!("lock:{number}"));
        guards.push(lock.acquire().await.expect("a lock"));
    }
    let begun = Instant::now();
    for node in cluster.nodes() {
        node.signal("STOP");
    }
    for guard in guards {
        assert_eq!(guard.lost().await.cause(), "silence");
    }
    locks.close().await.expect("nothing is held");
    assert!(begun.elapsed() < ms(7000), "{:?}", begun.elapsed());
}

/// A node that hangs does not keep close from releasing what the others have.
#[tokio::test(flavor = "multi_thread")]
async fn close_while_a_node_hangs() {
    let cluster = Cluster::start(2, 0);
    let broken = Broken::default();
    let settings = settings().observer(broken.clone()).reply_time(ms(500));
    let locks = locks_in(&cluster, 0, settings);
    let mut guards = Vec::new();
    for number in 0..20 {
        let lock = locks.lock(format!("lock:{number}"));
        guards.push(lock.acquire().await.expect("a lock"));
    }
    cluster.node(1).signal("STOP");
    let is_broken = || !broken.0.lock().expect("no panic").is_empty();
    eventually(is_broken, "the silence of the node");
    let begun = Instant::now();
    is(locks.close().await, ErrorKind::Unavailable);
    assert!(begun.elapsed() < ms(5000), "{:?}", begun.elapsed());
    assert_eq!(cmd!(cluster.node(0).connection(), "DBSIZE").int(), 0);
    cluster.node(1).signal("CONT");
}

/// While its slot moves, a lock is found by ASK, and afterwards by MOVED. That its line follows is the trial's.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_follows_its_slot() {
    let cluster = Cluster::start(2, 0);
    let locks = locks_in(&cluster, 0, settings());
    let slot = cluster::slot("k");
    let (from, to) = (cluster.serves(slot), 1 - cluster.serves(slot));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    cluster.begin_move(slot, from, to);
    assert_eq!(cluster.carry_keys(slot, from, to), 1);
    guard.check().await.expect("held");
    cluster.end_move(slot, from, to);
    guard.check().await.expect("held");
    within(LONG, || guard.is_held(), "certainty");
    guard.release().await.expect("a release");
    assert!(is_free(cluster.node(to), "k"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_takes_over() {
    let mut cluster = Cluster::start(3, 1);
    let slot = cluster::slot("k");
    let old = cluster.serves(slot);
    let new = cluster.replicas_of(old)[0];
    // The only node that the client is told of is the one that dies.
    let broken = Broken::default();
    let locks = locks_in(&cluster, old, settings().observer(broken.clone()));
    let guard = locks.lock("k").acquire().await.expect("a lock");
    let next = in_line(cluster.node(old), &locks.lock("k"), 1);
    cluster.node(old).wait_for_sync(cluster.node(new));
    cluster.node_mut(old).kill9();
    cluster.wait_until_primary(new);
    await_waiters(cluster.node(new), "k", 1);
    guard.check().await.expect("the grant has come along");
    guard.release().await.expect("a release");
    granted(next).await.release().await.expect("a release");
    let is_left = || broken.0.lock().expect("no panic").is_empty();
    eventually(is_left, "the end of the loop of the dead node");
}
