//! Queued calls in a cluster: a call whose slot leaves the node gets the redirection as an event.

use crate::support::{KEY, LONG_MS, SLOT, held, keys_of, sent, two_nodes};
use redis::{Connection, Value};
use testbed::{Cluster, Expect, Session, cmd, polled, waiters};

/// The events of the next reply that has any.
#[track_caller]
fn events(session: &mut Session) -> Vec<String> {
    loop {
        let poll = session.run("LOCK.SESSION POLL ID BLOCK 5000");
        // Redis 7.0 ends every blocked call itself when the cluster goes down.
        if matches!(&poll, Err(error) if error.code() == "CLUSTERDOWN") {
            continue;
        }
        let events = polled(poll).events;
        if !events.is_empty() {
            return events;
        }
    }
}

/// A cluster whose second node has a session; a call of `b` is queued in it for what `a` holds there.
#[track_caller]
fn b_waits() -> (Cluster, Connection, Session) {
    let (cluster, mut c, _) = held();
    let session = Session::open(cluster.node(1));
    assert_eq!(session.queue(&mut c, &format!("{KEY} b")), 0);
    (cluster, c, session)
}

#[test]
fn a_call_whose_slot_moves_is_told_where_to() {
    let (cluster, mut c, mut session) = b_waits();
    assert_eq!(session.queue(&mut c, &format!("{KEY} c")), 1);
    cluster.move_slot(SLOT, 1, 0);
    // The key leaves before the slot does.
    let ask = sent("ASK", &cluster, 0);
    let mut told = events(&mut session);
    if told.len() < 2 {
        told.extend(events(&mut session));
    }
    let expected = [(1, "b"), (2, "c")].map(|(n, owner)| format!("{n} ended {KEY} {owner} {ask}"));
    assert_eq!(told, expected);
    // The program queues it in a session of the new node.
    session.ask(&mut c, &format!("{KEY} b")).refused("MOVED");
    let mut there = cluster.node(0).connection();
    let mut session = Session::open(cluster.node(0));
    assert_eq!(session.queue(&mut there, &format!("{KEY} b")), 0);
    assert_eq!(cmd!(there, "LOCK.RELEASE", KEY, "a").int(), 0);
    let told = events(&mut session).remove(0);
    assert!(told.starts_with(&format!("1 granted {KEY} b ")), "{told}");
}

/// As after a split: the other node claims the slot in a later epoch.
#[test]
fn a_call_whose_slot_is_taken_is_told_where_to() {
    let (cluster, _, mut session) = b_waits();
    cluster.set_slot(0, SLOT, "NODE", 0);
    cmd!(cluster.node(0).connection(), "CLUSTER", "BUMPEPOCH").text();
    let moved = format!("1 ended {KEY} b {}", sent("MOVED", &cluster, 0));
    assert_eq!(events(&mut session), [moved]);
}

#[test]
fn a_call_is_told_that_the_cluster_is_down() {
    let (mut cluster, _, mut session) = b_waits();
    cluster.node_mut(0).kill9();
    let told = events(&mut session).remove(0);
    let start = format!("1 ended {KEY} b CLUSTERDOWN ");
    assert!(told.starts_with(&start), "{told}");
}

/// The calls of a session may be for locks of all slots of its node.
#[test]
fn locks_of_several_slots_are_handed_over_in_one_session() {
    let (cluster, mut other) = two_nodes();
    let mut session = Session::open(cluster.node(1));
    let mut keys = keys_of(&cluster, 1, 20);
    for key in &keys {
        cmd!(other, "LOCK.ACQUIRE", key, "a", "PX", LONG_MS).grant();
        assert_eq!(session.queue(&mut other, &format!("{key} b")), 0);
        assert_eq!(cmd!(other, "LOCK.RELEASE", key, "a").int(), 0);
    }
    let mut granted = Vec::new();
    while granted.len() < keys.len() {
        for event in events(&mut session) {
            let words: Vec<_> = event.split(' ').collect();
            assert_eq!(words[1], "granted", "{event}");
            granted.push(words[2].to_owned());
        }
    }
    granted.sort();
    keys.sort();
    assert_eq!(granted, keys);
}

/// The answer comes at once, or as an event where the node cannot follow the cycle at once.
#[test]
fn a_cycle_over_the_slots_of_a_node_is_found() {
    let (cluster, mut c) = two_nodes();
    let mut session = Session::open(cluster.node(1));
    let [k, j] = <[_; 2]>::try_from(keys_of(&cluster, 1, 2)).expect("two names");
    cmd!(c, "LOCK.ACQUIRE", &k, "a", "PX", LONG_MS).grant();
    cmd!(c, "LOCK.ACQUIRE", &j, "b", "PX", LONG_MS).grant();
    assert_eq!(session.queue(&mut c, &format!("{k} b")), 0);
    match session.ask(&mut c, &format!("{j} a")) {
        Err(refusal) => assert_eq!(refusal.code(), "DEADLOCK"),
        Ok(place) => {
            assert_eq!(place, Value::Int(0));
            let told = events(&mut session).remove(0);
            let start = format!("1 ended {j} a DEADLOCK ");
            assert!(told.starts_with(&start), "{told}");
        }
    }
    assert_eq!(waiters(&mut c, &k), ["b"]);
    assert_eq!(waiters(&mut c, &j), [""; 0]);
}
