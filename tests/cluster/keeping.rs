//! Kept leases (`KEEP`) of slots that move as a whole: `CLUSTER MIGRATESLOTS`.

use crate::atomic::{SOURCE, TARGET, has_atomic_migration, two_nodes};
use crate::support::{KEY, SLOT, SOON};
use redis::Connection;
use testbed::{Expect, Server, cmd, eventually};

/// A lease that is renewed several times in a test.
const LEASE_MS: u32 = 1_200;
const SILENCE_MS: u32 = 60_000;
/// A key of another slot of the source.
const STAYS: &str = "{other}k";

/// A connection that keeps this lock, and the token.
#[track_caller]
fn keeper(node: &Server, key: &str) -> (Connection, i64) {
    let mut keeper = node.connection();
    let (lease, silence) = (LEASE_MS, SILENCE_MS);
    let acquire = cmd!(
        keeper,
        "LOCK.ACQUIRE",
        key,
        "a",
        "PX",
        lease,
        "KEEP",
        silence
    );
    (keeper, acquire.grant().token)
}

fn renewals(node: &Server) -> u64 {
    let count = node.info_field("lock", "lock_kept_renewals");
    count.parse().expect("a count")
}

/// Waits until the node has renewed so many times more.
#[track_caller]
fn await_renewals(node: &Server, more: u64) {
    let before = renewals(node);
    eventually(|| renewals(node) >= before + more, "renewals");
}

/// Waits until the server has closed the connection, and demands that it says nothing before.
#[track_caller]
fn is_closed(keeper: &mut Connection) {
    keeper.set_read_timeout(Some(SOON)).expect("a time limit");
    let error = keeper.recv_response().expect_err("no reply");
    assert!(!error.is_timeout(), "neither a reply nor closed");
}

/// Who keeps the lock: the client and the silence.
#[track_caller]
fn kept_by(c: &mut Connection) -> (i64, i64) {
    let holders = cmd!(*c, "LOCK.HOLDERS", KEY).items();
    let holder = holders.into_iter().next().expect("a holder").fields();
    let field = |name: &str| holder[name].clone().int();
    (field("kept-by"), field("keep-ms"))
}

#[test]
fn a_kept_grant_moves_whole_and_its_keeper_hears_it() {
    if !has_atomic_migration() {
        return;
    }
    let migration = two_nodes();
    let (source, target) = (
        migration.cluster.node(SOURCE),
        migration.cluster.node(TARGET),
    );
    let (mut first, token) = keeper(source, KEY);
    let (mut other, _) = keeper(source, STAYS);
    migration.hold_before_pause(true);
    migration.begin(SLOT, SLOT);
    migration.wait_for_state(SOURCE, "waiting-to-pause");
    // The slot is on its way, and still here: the grant is renewed, on both sides, and nobody is closed.
    await_renewals(source, 6);
    assert_eq!(cmd!(first, "PING").text(), "PONG");
    assert_eq!(target.info_field("lock", "lock_held"), "1");
    assert_eq!(renewals(target), 0);
    migration.hold_before_pause(false);
    is_closed(&mut first);
    migration.wait_for_state(SOURCE, "success");
    migration.cluster.wait_until_whole();

    let mut c = migration.target();
    assert_eq!(cmd!(c, "LOCK.FENCE", KEY).int(), token);
    assert_eq!(kept_by(&mut c), (0, 0));
    let mut again = migration.target();
    let id = cmd!(again, "CLIENT", "ID").int();
    let renewed = cmd!(
        again,
        "LOCK.RENEW",
        KEY,
        "a",
        "TOKEN",
        token,
        "KEEP",
        SILENCE_MS
    );
    assert_eq!(renewed.grant().token, token);
    await_renewals(target, 4);
    assert_eq!(kept_by(&mut c), (id, i64::from(SILENCE_MS)));
    assert_eq!(cmd!(c, "LOCK.FENCE", KEY).int(), token);
    // What else the node keeps is untouched.
    assert_eq!(cmd!(other, "PING").text(), "PONG");
    assert_eq!(source.info_field("lock", "lock_kept"), "1");
}

/// Nothing can be renewed in the pause before the slot changes hands.
#[test]
fn a_lease_that_ends_in_the_pause_closes() {
    if !has_atomic_migration() {
        return;
    }
    let migration = two_nodes();
    let (mut first, _) = keeper(migration.cluster.node(SOURCE), KEY);
    migration.hold_in_pause(true);
    migration.begin(SLOT, SLOT);
    migration.wait_for_state(SOURCE, "failover-granted");
    is_closed(&mut first);
    migration.hold_in_pause(false);
    migration.wait_for_state(SOURCE, "success");
    migration.cluster.wait_until_whole();
    let mut c = migration.target();
    eventually(
        || cmd!(c, "LOCK.INFO", KEY).value() == redis::Value::Nil,
        "the lease to end",
    );
}

/// A migration that is called off changes nothing.
#[test]
fn a_slot_that_stays_after_all_closes_nobody() {
    if !has_atomic_migration() {
        return;
    }
    let migration = two_nodes();
    let source = migration.cluster.node(SOURCE);
    let (mut first, token) = keeper(source, KEY);
    migration.hold_before_pause(true);
    migration.begin(SLOT, SLOT);
    migration.wait_for_state(SOURCE, "waiting-to-pause");
    migration.cluster.order(SOURCE, &["CANCELSLOTMIGRATIONS"]);
    migration.wait_for_state(SOURCE, "cancelled");
    await_renewals(source, 4);
    assert_eq!(cmd!(first, "PING").text(), "PONG");
    assert_eq!(cmd!(migration.source(), "LOCK.FENCE", KEY).int(), token);
}
