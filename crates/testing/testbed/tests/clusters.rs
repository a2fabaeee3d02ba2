//! Clusters and Sentinels of the test bed, on servers without the module.

use std::collections::BTreeSet;
use std::path::Path;
use testbed::cluster::{SLOTS, slot};
use testbed::{Builder, Cluster, Expect, Failover, Sentinels, cmd};

fn cluster(primaries: usize, replicas: usize) -> Cluster {
    Cluster::start_with(primaries, replicas, Builder::without_module)
}

fn sentinels(replicas: usize, sentinels: usize) -> Sentinels {
    Sentinels::builder(replicas, sentinels).start_with(Builder::without_module)
}

#[test]
fn a_cluster_serves_all_slots_and_leaves_nothing_behind() {
    let cluster = cluster(3, 1);
    let serving: BTreeSet<_> = (0..SLOTS)
        .step_by(97)
        .map(|slot| cluster.serves(slot))
        .collect();
    assert_eq!(serving, BTreeSet::from([0, 1, 2]));
    for primary in 0..3 {
        assert_eq!(cluster.replicas_of(primary), [primary + 3]);
        assert!(cluster.is_primary(primary) && !cluster.is_primary(primary + 3));
    }
    for key in ["foo", "", "{foo}bar", "a{}b", "}a{b}", "{a", "ключ"] {
        let mut c = cluster.node(0).connection();
        assert_eq!(
            cmd!(c, "CLUSTER", "KEYSLOT", key).int(),
            i64::from(slot(key)),
            "{key:?}"
        );
    }
    let traces: Vec<_> = cluster
        .nodes()
        .iter()
        .map(|node| (format!("/proc/{}", node.pid()), node.dir().to_owned()))
        .collect();
    drop(cluster);
    for (process, folder) in traces {
        assert!(!Path::new(&process).exists() && !folder.exists());
    }
}

#[test]
fn a_slot_moves_with_its_keys() {
    let cluster = cluster(2, 0);
    let (slot, key) = (slot("foo"), "foo");
    let from = cluster.serves(slot);
    let to = 1 - from;
    cmd!(cluster.node(from).connection(), "SET", key, "v").okay();
    cluster.begin_move(slot, from, to);
    cmd!(cluster.node(from).connection(), "GET", "{foo}other").refused("ASK");
    assert_eq!(cluster.carry_keys(slot, from, to), 1);
    cluster.end_move(slot, from, to);
    assert_eq!(cluster.serves(slot), to);
    assert_eq!(cmd!(cluster.node(to).connection(), "GET", key).text(), "v");
    let moved = cmd!(cluster.node(from).connection(), "GET", key).refused("MOVED");
    assert_eq!(moved, format!("MOVED {slot} {}", cluster.address(to)));
    cluster.move_slot(slot, to, from);
    assert_eq!(
        cmd!(cluster.node(from).connection(), "GET", key).text(),
        "v"
    );
}

// Each replica is elected once only: one that was elected, follows again, and is to be elected once
// more within seconds wins by the votes of the first time, with the epoch of that time.

#[test]
fn a_replica_takes_over_on_demand() {
    let cluster = cluster(3, 1);
    for how in [Failover::Agreed, Failover::Forced, Failover::Takeover] {
        let old = cluster.serves(0);
        let new = cluster.replicas_of(old)[0];
        cluster.fail_over(new, how);
        cluster.wait_until_whole();
        assert!(!cluster.is_primary(old));
        assert_eq!(cluster.serves_in_view_of(2, 0), Some(new));
    }
}

#[test]
fn a_replica_takes_over_after_a_crash() {
    let mut cluster = cluster(3, 1);
    let old = cluster.serves(0);
    let new = cluster.replicas_of(old)[0];
    cluster.node_mut(old).kill9();
    cluster.wait_until_primary(new);
    cluster.wait_until_whole();
    cluster.node_mut(old).restart();
    cluster.wait_until_whole();
    assert_eq!(cluster.serves_in_view_of(old, 0), Some(new));
    assert_eq!(cluster.replicas_of(new), [old]);
}

#[test]
fn sentinels_name_the_primary_and_another_one_when_it_dies() {
    let mut sentinels = sentinels(2, 3);
    assert_eq!(sentinels.primary(), 0);
    sentinels.server_mut(0).kill9();
    let new = sentinels.wait_for_primary_other_than(0);
    cmd!(sentinels.server(new).connection(), "SET", "k", "v").okay();
    sentinels.server_mut(0).restart();
    sentinels.wait_until_whole();
    let other = sentinels.fail_over();
    assert_ne!(other, new);
    assert_eq!(sentinels.primary(), other);
    sentinels.wait_until_whole();
}

#[test]
fn sentinels_pass_over_a_primary_that_hangs() {
    let sentinels = sentinels(1, 3);
    sentinels.server(0).signal("STOP");
    let new = sentinels.wait_for_primary_other_than(0);
    sentinels.server(0).signal("CONT");
    sentinels.wait_until_whole();
    assert_eq!(sentinels.primary(), new);
}
