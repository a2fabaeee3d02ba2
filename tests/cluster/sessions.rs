//! Sessions in a cluster: each node has its own, and a slot takes its grants along.

use crate::atomic::{has_atomic_migration, migration};
use crate::support::{KEY, SLOT, SOURCE, keys_of, two_nodes};
use testbed::{Cluster, Expect, Polled, Session, await_renewals, cmd, eventually};

/// The session has this many grants left, and is told that it has lost one.
#[track_caller]
fn is_told(session: &mut Session, grants: i64, token: i64) {
    let Polled {
        grants: left,
        events,
        ..
    } = session.poll_for(10_000);
    let lost = format!("1 lost {KEY} a {token} deleted");
    assert_eq!((left, events), (grants, vec![lost]));
}

#[test]
fn a_slot_that_moves_is_told_and_its_grants_stand_elsewhere() {
    let cluster = Cluster::start(2, 0);
    let mut session = Session::open(cluster.node(1));
    let token = session.acquire(&format!("{KEY} a PX 600000")).token;
    cluster.move_slot(SLOT, 1, 0);
    is_told(&mut session, 0, token);
    // The program asks the new node, in a session of that.
    let mut elsewhere = Session::open(cluster.node(0));
    let renew = format!("LOCK.RENEW {KEY} a TOKEN {token} SESSION ID");
    let words = session.line(&renew);
    elsewhere.run(&words).refused("NOSESSION");
    assert_eq!(elsewhere.run(&renew).grant().token, token);
}

#[test]
fn close_releases_the_grants_of_all_slots_of_the_node() {
    let (cluster, mut c) = two_nodes();
    let mut session = Session::open(cluster.node(1));
    let keys = keys_of(&cluster, 1, 150);
    session.acquire_all(&mut c, keys.iter().map(|key| format!("{key} a PX 600000")));
    assert_eq!(session.run("LOCK.SESSION CLOSE ID").int(), 150);
    eventually(|| cmd!(c, "DBSIZE").int() == 0, "the releases");
}

#[test]
fn grants_are_renewed_slot_by_slot() {
    let cluster = Cluster::start(2, 0);
    let mut session = Session::open(cluster.node(1));
    session.acquire(&format!("{KEY} a PX 1200"));
    await_renewals(cluster.node(1), 5);
    assert_eq!(cmd!(session.connection, "EXISTS", KEY).int(), 1);
}

/// A slot may be imported for longer than a lease.
#[test]
fn grants_of_a_slot_that_is_imported_are_renewed() {
    let (cluster, mut c) = two_nodes();
    let token = cmd!(c, "LOCK.ACQUIRE", KEY, "a", "PX", 1200).grant().token;
    cmd!(c, "PERSIST", KEY).int(); // the move may take its time
    cluster.begin_move(SLOT, 1, 0);
    cluster.carry_keys(SLOT, 1, 0);
    let mut session = Session::open(cluster.node(0));
    let renew = format!("LOCK.RENEW {KEY} a TOKEN {token} PX 1200 SESSION ID");
    cmd!(session.connection, "ASKING").okay();
    session.run(&renew).grant();
    await_renewals(cluster.node(0), 5);
    cmd!(session.connection, "ASKING").okay();
    assert_eq!(cmd!(session.connection, "LOCK.FENCE", KEY).int(), token);
}

/// The hand-over of an atomic migration removes the slot's keys at once.
#[test]
fn an_atomic_migration_is_told() {
    testbed::needs!(has_atomic_migration());
    let (migration, _) = migration();
    let mut session = Session::open(migration.cluster.node(SOURCE));
    let token = session.acquire(&format!("{KEY} a PX 600000")).token;
    session.acquire("{other}k a PX 600000");
    migration.begin(SLOT, SLOT);
    is_told(&mut session, 1, token);
    migration.wait_for_state(SOURCE, "success");
    migration.cluster.wait_until_whole();
    assert_eq!(cmd!(migration.target(), "LOCK.FENCE", KEY).int(), token);
}
