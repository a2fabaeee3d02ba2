//! Sessions in a cluster: each node has its own, and a slot takes its grants along.

use crate::atomic::{SOURCE, has_atomic_migration, two_nodes};
use crate::support::{KEY, LONG_MS, SLOT};
use redis::{Connection, Value};
use testbed::{Cluster, Expect, Server, cmd, eventually};

/// The sessions of a node, with a connection that polls one.
#[track_caller]
fn open(node: &Server) -> (Connection, i64) {
    let mut c = node.connection();
    let session = cmd!(c, "LOCK.SESSION", "OPEN").int();
    (c, session)
}

/// What a POLL answers: how many grants the session has, and its events without their numbers.
#[track_caller]
fn poll(c: &mut Connection, session: i64) -> (i64, Vec<String>) {
    let mut fields = cmd!(*c, "LOCK.SESSION", "POLL", session, "BLOCK", 10_000).fields();
    let grants = fields.remove("grants").expect("grants").int();
    let events = fields.remove("events").expect("events").items();
    let text = |part: Value| match part {
        Value::Int(number) => number.to_string(),
        other => other.text(),
    };
    let event = |event: Value| {
        let parts = event.items().into_iter().skip(1).map(text);
        parts.collect::<Vec<_>>().join(" ")
    };
    (grants, events.into_iter().map(event).collect())
}

#[test]
fn a_slot_that_moves_is_told_and_its_grants_stand_elsewhere() {
    let cluster = Cluster::start(2, 0);
    let (mut c, session) = open(cluster.node(1));
    let acquire = cmd!(
        c,
        "LOCK.ACQUIRE",
        KEY,
        "a",
        "PX",
        LONG_MS,
        "SESSION",
        session
    );
    let token = acquire.grant().token;
    cluster.move_slot(SLOT, 1, 0);
    let lost = format!("lost {KEY} a {token} deleted");
    assert_eq!(poll(&mut c, session), (0, vec![lost]));
    // The program asks the new node, in a session of that.
    let (mut c, elsewhere) = open(cluster.node(0));
    cmd!(
        c,
        "LOCK.RENEW",
        KEY,
        "a",
        "TOKEN",
        token,
        "SESSION",
        session
    )
    .refused("NOSESSION");
    let renew = cmd!(
        c,
        "LOCK.RENEW",
        KEY,
        "a",
        "TOKEN",
        token,
        "SESSION",
        elsewhere
    );
    assert_eq!(renew.grant().token, token);
}

#[test]
fn close_releases_the_grants_of_all_slots_of_the_node() {
    let cluster = Cluster::start(2, 0);
    let node = cluster.node(1);
    let (mut c, session) = open(node);
    let keys = (0..1000).map(|n| format!("k{n}"));
    let here = |key: &String| cluster.serves(testbed::cluster::slot(key)) == 1;
    let keys: Vec<_> = keys.filter(here).take(150).collect();
    for key in &keys {
        cmd!(
            c,
            "LOCK.ACQUIRE",
            key,
            "a",
            "PX",
            LONG_MS,
            "SESSION",
            session
        )
        .grant();
    }
    let count = i64::try_from(keys.len()).expect("few");
    assert_eq!(cmd!(c, "LOCK.SESSION", "CLOSE", session).int(), count);
    eventually(|| cmd!(c, "DBSIZE").int() == 0, "the releases");
}

#[test]
fn grants_are_renewed_slot_by_slot() {
    let cluster = Cluster::start(2, 0);
    let node = cluster.node(1);
    let (mut c, session) = open(node);
    cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", 1200, "SESSION", session).grant();
    let renewals = || -> u64 {
        let count = node.info_field("lock", "lock_session_renewals");
        count.parse().expect("a count")
    };
    eventually(|| renewals() >= 5, "renewals");
    assert_eq!(cmd!(c, "EXISTS", KEY).int(), 1);
}

/// The hand-over of an atomic migration removes the slot's keys at once.
#[test]
fn an_atomic_migration_is_told() {
    if !has_atomic_migration() {
        return;
    }
    let migration = two_nodes();
    let (mut c, session) = open(migration.cluster.node(SOURCE));
    let acquire = cmd!(
        c,
        "LOCK.ACQUIRE",
        KEY,
        "a",
        "PX",
        LONG_MS,
        "SESSION",
        session
    );
    let token = acquire.grant().token;
    cmd!(
        c,
        "LOCK.ACQUIRE",
        "{other}k",
        "a",
        "PX",
        LONG_MS,
        "SESSION",
        session
    )
    .grant();
    migration.begin(SLOT, SLOT);
    let lost = format!("lost {KEY} a {token} deleted");
    assert_eq!(poll(&mut c, session), (1, vec![lost]));
    migration.wait_for_state(SOURCE, "success");
    migration.cluster.wait_until_whole();
    assert_eq!(cmd!(migration.target(), "LOCK.FENCE", KEY).int(), token);
}
