//! Queued calls in a cluster: a call whose slot leaves the node gets the redirection as an event.

use crate::support::{KEY, LONG_MS, SLOT};
use redis::{Connection, Value};
use testbed::{Cluster, Expect, Reply, Server, cmd, waiters};

/// The sessions of a node, with a connection that polls one.
#[track_caller]
fn open(node: &Server) -> (Connection, i64) {
    let mut c = node.connection();
    let session = cmd!(c, "LOCK.SESSION", "OPEN").int();
    (c, session)
}

/// Queues this owner for the lock of these tests.
fn queue(c: &mut Connection, session: i64, key: &str, owner: &str) -> Reply {
    cmd!(
        *c,
        "LOCK.ACQUIRE",
        key,
        owner,
        "PX",
        LONG_MS,
        "QUEUE",
        0,
        "SESSION",
        session,
        "HOLDS",
        1
    )
}

/// The kind, key, owner and last part of each event of the next reply that has any.
#[track_caller]
fn events(c: &mut Connection, session: i64) -> Vec<[String; 4]> {
    let text = |part: &Value| match part {
        Value::Int(number) => number.to_string(),
        other => other.clone().text(),
    };
    loop {
        let poll = cmd!(*c, "LOCK.SESSION", "POLL", session, "BLOCK", 5000);
        // Redis 7.0 ends every blocked call itself when the cluster goes down.
        if matches!(&poll, Err(error) if error.code() == "CLUSTERDOWN") {
            continue;
        }
        let events = poll.fields()["events"].clone().items();
        if !events.is_empty() {
            let parts = events.into_iter().map(Expect::items);
            return parts
                .map(|parts| [1, 2, 3, parts.len() - 1].map(|part| text(&parts[part])))
                .collect();
        }
    }
}

#[test]
fn a_call_whose_slot_moves_is_told_where_to() {
    let cluster = Cluster::start(2, 0);
    let (mut c, session) = open(cluster.node(1));
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    assert_eq!(queue(&mut c, session, KEY, "b").int(), 0);
    assert_eq!(queue(&mut c, session, KEY, "c").int(), 1);
    cluster.move_slot(SLOT, 1, 0);
    // The key leaves before the slot does.
    let ask = format!("ASK {SLOT} {}", cluster.address(0));
    let mut told = events(&mut c, session);
    if told.len() < 2 {
        told.extend(events(&mut c, session));
    }
    let expected = ["b", "c"].map(|owner| {
        let words = ["ended", KEY, owner, &ask];
        words.map(str::to_owned)
    });
    assert_eq!(told, expected);
    // The program queues it in a session of the new node.
    queue(&mut c, session, KEY, "b").refused("MOVED");
    let (mut there, session) = open(cluster.node(0));
    assert_eq!(queue(&mut there, session, KEY, "b").int(), 0);
    assert_eq!(cmd!(there, "LOCK.RELEASE", KEY, "a").int(), 0);
    let [kind, key, owner, _] = events(&mut there, session).remove(0);
    assert_eq!([&*kind, &*key, &*owner], ["granted", KEY, "b"]);
}

/// As after a split: the other node claims the slot in a later epoch.
#[test]
fn a_call_whose_slot_is_taken_is_told_where_to() {
    let cluster = Cluster::start(2, 0);
    let (mut c, session) = open(cluster.node(1));
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    assert_eq!(queue(&mut c, session, KEY, "b").int(), 0);
    cluster.set_slot(0, SLOT, "NODE", 0);
    cmd!(cluster.node(0).connection(), "CLUSTER", "BUMPEPOCH").text();
    let moved = format!("MOVED {SLOT} {}", cluster.address(0));
    let expected = ["ended", KEY, "b", &moved].map(str::to_owned);
    assert_eq!(events(&mut c, session), [expected]);
}

#[test]
fn a_call_is_told_that_the_cluster_is_down() {
    let mut cluster = Cluster::start(2, 0);
    let (mut c, session) = open(cluster.node(1));
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    assert_eq!(queue(&mut c, session, KEY, "b").int(), 0);
    cluster.node_mut(0).kill9();
    let [kind, _, owner, text] = events(&mut c, session).remove(0);
    assert_eq!((&*kind, &*owner), ("ended", "b"));
    assert!(text.starts_with("CLUSTERDOWN "), "{text}");
}

/// The calls of a session may be for locks of all slots of its node.
#[test]
fn locks_of_several_slots_are_handed_over_in_one_session() {
    let cluster = Cluster::start(2, 0);
    let (mut c, session) = open(cluster.node(1));
    let names = (0..1000).map(|n| format!("k{n}"));
    let here = |key: &String| cluster.serves(testbed::cluster::slot(key)) == 1;
    let keys: Vec<_> = names.filter(here).take(20).collect();
    let mut other = cluster.node(1).connection();
    for key in &keys {
        cmd!(other, "LOCK.ACQUIRE", key, "a", "PX", LONG_MS).grant();
        assert_eq!(queue(&mut other, session, key, "b").int(), 0);
        assert_eq!(cmd!(other, "LOCK.RELEASE", key, "a").int(), 0);
    }
    let mut granted = Vec::new();
    while granted.len() < keys.len() {
        let told = events(&mut c, session);
        assert!(told.iter().all(|[kind, ..]| kind == "granted"), "{told:?}");
        granted.extend(told.into_iter().map(|[_, key, ..]| key));
    }
    granted.sort();
    let mut expected = keys;
    expected.sort();
    assert_eq!(granted, expected);
}

/// The answer comes at once, or as an event where the node cannot follow the cycle at once.
#[test]
fn a_cycle_over_the_slots_of_a_node_is_found() {
    let cluster = Cluster::start(2, 0);
    let (mut c, session) = open(cluster.node(1));
    let names = (0..1000).map(|n| format!("k{n}"));
    let here = |key: &String| cluster.serves(testbed::cluster::slot(key)) == 1;
    let [k, j]: [String; 2] = names
        .filter(here)
        .take(2)
        .collect::<Vec<_>>()
        .try_into()
        .expect("two names");
    cmd!(c, "LOCK.ACQUIRE", &k, "a", "PX", LONG_MS).grant();
    cmd!(c, "LOCK.ACQUIRE", &j, "b", "PX", LONG_MS).grant();
    assert_eq!(queue(&mut c, session, &k, "b").int(), 0);
    match queue(&mut c, session, &j, "a") {
        Err(refusal) => assert_eq!(refusal.code(), "DEADLOCK"),
        Ok(place) => {
            assert_eq!(place, Value::Int(0));
            let [kind, key, owner, text] = events(&mut c, session).remove(0);
            assert_eq!([&*kind, &*key, &*owner], ["ended", &*j, "a"]);
            assert!(text.starts_with("DEADLOCK "), "{text}");
        }
    }
    assert_eq!(waiters(&mut c, &k), ["b"]);
    assert_eq!(waiters(&mut c, &j), [""; 0]);
}
