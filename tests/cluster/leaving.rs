//! Calls that wait for a lock whose slot leaves their node, or whose cluster goes down, in each of the
//! ways in which that can happen. All of them are answered, though nothing else happens there.

use crate::support::{
    KEY, LONG_MS, SLOT, answer, call_off, held, next_grant, sent, waiter, waiters,
};
use testbed::{Cluster, Expect, Failover, Talk, cmd, eventually, post, transaction};

#[test]
fn the_cluster_goes_down_while_the_lock_is_held() {
    let (mut cluster, mut c, grant) = held();
    let waiters = waiters(cluster.node(1), ["b", "c"]);
    cluster.node_mut(0).kill9();
    for mut waiter in waiters {
        let error = answer(&mut waiter).refused("CLUSTERDOWN");
        assert_eq!(error, cmd!(c, "LOCK.INFO", KEY).refused("CLUSTERDOWN"));
    }
    cluster.node_mut(0).restart();
    cluster.wait_until_whole();
    assert_eq!(cmd!(c, "LOCK.FENCE", KEY).int(), grant.token);
}

#[test]
fn the_slot_is_nobodys_while_the_lock_is_held() {
    let cluster = Cluster::start_with(2, 0, |settings| {
        settings.config("cluster-require-full-coverage", "no")
    });
    let mut c = cluster.node(1).connection();
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    let mut waiter = waiter(cluster.node(1), "b");
    cluster.order(1, &["DELSLOTS", &SLOT.to_string()]);
    let error = answer(&mut waiter).refused("CLUSTERDOWN");
    assert_eq!(error, cmd!(c, "LOCK.INFO", KEY).refused("CLUSTERDOWN"));
}

#[test]
fn another_node_takes_the_slot_while_the_lock_is_held() {
    let (cluster, _, grant) = held();
    let waiters = waiters(cluster.node(1), ["b", "c"]);
    // As after a split: the other one claims the slot in a later epoch.
    cluster.set_slot(0, SLOT, "NODE", 0);
    let bumped = cmd!(cluster.node(0).connection(), "CLUSTER", "BUMPEPOCH").text();
    assert!(bumped.starts_with("BUMPED"), "{bumped}");
    for mut waiter in waiters {
        let moved = answer(&mut waiter).refused("MOVED");
        assert_eq!(moved, sent("MOVED", &cluster, 0));
    }
    // The old node has dropped the lock with the slot.
    assert!(next_grant(&cluster, 0).token > grant.token);
}

#[test]
fn the_slot_is_set_to_another_node_while_the_lock_is_free_and_kept_back() {
    let (cluster, mut c, grant) = held();
    let mut waiter = waiter(cluster.node(1), "b");
    // Writes are refused when the lock becomes free, and so it is for nobody yet when it leaves.
    let renew = format!("LOCK.RENEW {KEY} a PX 50");
    transaction(&mut c, &[&renew, "CONFIG SET min-replicas-to-write 1"]);
    let over = || cmd!(c, "LOCK.INFO", KEY).value() == redis::Value::Nil;
    eventually(over, "the lease to end");
    for node in [0, 1] {
        cluster.set_slot(node, SLOT, "NODE", 0);
    }
    cmd!(c, "CONFIG", "SET", "min-replicas-to-write", 0).okay();
    let moved = answer(&mut waiter).refused("MOVED");
    assert_eq!(moved, sent("MOVED", &cluster, 0));
    assert!(next_grant(&cluster, 0).token > grant.token);
}

#[test]
fn a_replica_takes_over_and_the_lock_stays_held() {
    let cluster = Cluster::start(3, 1);
    let mut last = 0;
    for how in [Failover::Agreed, Failover::Forced, Failover::Takeover] {
        let old = cluster.serves(SLOT);
        let new = cluster.replicas_of(old)[0];
        let mut c = cluster.node(old).connection();
        let grant = cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
        assert!(grant.token > last, "{how:?}");
        cluster.node(old).wait_for_sync(cluster.node(new));
        let waiters = waiters(cluster.node(old), ["b", "c"]);
        cluster.fail_over(new, how);
        for mut waiter in waiters {
            let error = answer(&mut waiter).expect_err("an error");
            match error.code() {
                "UNBLOCKED" => {}
                "MOVED" => assert_eq!(error.text(), sent("MOVED", &cluster, new)),
                _ => panic!("{how:?}: {error}"),
            }
        }
        cluster.wait_until_whole();
        assert_eq!(cluster.serves(SLOT), new, "{how:?}");
        let moved = cmd!(cluster.node(old).connection(), "LOCK.ACQUIRE", KEY, "b").refused("MOVED");
        assert_eq!(moved, sent("MOVED", &cluster, new));
        // Those who return find the lock held, and get it in their turn.
        let mut again = waiter(cluster.node(new), "b");
        let mut c = cluster.node(new).connection();
        assert_eq!(cmd!(c, "LOCK.FENCE", KEY).int(), grant.token, "{how:?}");
        assert_eq!(cmd!(c, "LOCK.RELEASE", KEY, "a").int(), 0);
        last = again.receive().grant().token;
        assert!(last > grant.token, "{how:?}");
        assert_eq!(cmd!(c, "LOCK.RELEASE", KEY, "b").int(), 0);
    }
}

#[test]
fn a_dead_primarys_replica_takes_over_with_the_lock() {
    let mut cluster = Cluster::start(3, 1);
    let old = cluster.serves(SLOT);
    let new = cluster.replicas_of(old)[0];
    let mut c = cluster.node(old).connection();
    let grant = cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    assert_eq!(cmd!(c, "WAIT", 1, 10_000).int(), 1);
    let mut lost = waiter(cluster.node(old), "b");
    cluster.node_mut(old).kill9();
    assert!(lost.recv_response().is_err(), "its connection is gone");
    cluster.wait_until_primary(new);
    cluster.wait_until_whole();
    let mut again = waiter(cluster.node(new), "b");
    let mut c = cluster.node(new).connection();
    assert_eq!(cmd!(c, "LOCK.FENCE", KEY).int(), grant.token);
    cmd!(c, "PEXPIRE", KEY, 20).int();
    assert!(again.receive().grant().token > grant.token);
    // The old one returns as a replica, with what the new one has granted.
    cluster.node_mut(old).restart();
    cluster.wait_until_whole();
    cluster.node(new).wait_for_sync(cluster.node(old));
    let mut c = cluster.node(old).connection();
    cmd!(c, "READONLY").okay();
    assert_eq!(cmd!(c, "LOCK.INFO", KEY).lock_info().owner, b"b");
}

/// On a node that imports the slot, with a lock that has come over; a call of `b` waits for it.
fn waiter_on_an_importing_node(cluster: &Cluster) -> redis::Connection {
    cluster.begin_move(SLOT, 1, 0);
    let mut c = cluster.node(1).connection();
    cmd!(c, "LOCK.ACQUIRE", KEY, "a").refused("ASK");
    let mut c = cluster.node(0).connection();
    cmd!(c, "ASKING").okay();
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    let mut waiter = cluster.node(0).connection();
    cmd!(waiter, "ASKING").okay();
    post!(waiter, "LOCK.ACQUIRE", KEY, "b", "PX", LONG_MS, "BLOCK", 0);
    let waits = || {
        cmd!(c, "ASKING").okay();
        cmd!(c, "LOCK.WAITERS", KEY).items().len() == 1
    };
    eventually(waits, "the call to wait");
    waiter
}

#[test]
fn who_waits_on_an_importing_node_is_granted_there_when_the_slot_has_come() {
    let cluster = Cluster::start(2, 0);
    let mut waiter = waiter_on_an_importing_node(&cluster);
    cluster.end_move(SLOT, 1, 0);
    let mut c = cluster.node(0).connection();
    // Not sent away and back in the meantime.
    assert_eq!(cmd!(c, "LOCK.WAITERS", KEY).items().len(), 1);
    assert_eq!(cmd!(c, "LOCK.RELEASE", KEY, "a").int(), 0);
    assert_eq!(answer(&mut waiter).grant().owner, b"b");
}

#[test]
fn who_waits_on_an_importing_node_is_sent_back_when_the_slot_stays_where_it_was() {
    let cluster = Cluster::start(2, 0);
    let mut waiter = waiter_on_an_importing_node(&cluster);
    call_off(&cluster);
    let moved = answer(&mut waiter).refused("MOVED");
    assert_eq!(moved, sent("MOVED", &cluster, 1));
}

/// A waiting call whose lock leaves by `MIGRATE` and whose slot follows: what it is told and what a
/// command is told, before and after the slot follows.
#[test]
fn redirections_name_the_node_as_those_of_commands_do() {
    for kind in ["ip", "hostname", "unknown-endpoint"] {
        let cluster = Cluster::start_with(2, 0, |settings| {
            settings
                .config("cluster-preferred-endpoint-type", kind)
                .config("cluster-announce-hostname", "node.example.org")
        });
        let mut c = cluster.node(1).connection();
        cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
        let mut waiter = waiter(cluster.node(1), "b");
        cluster.move_slot(SLOT, 1, 0);
        let told = answer(&mut waiter).expect_err("a redirection");
        let command = cmd!(c, "LOCK.INFO", KEY).expect_err("a redirection");
        let place = |text: &str| text.split(' ').nth(2).map(str::to_owned);
        assert_eq!(place(told.text()), place(command.text()), "{kind}");
    }
}
