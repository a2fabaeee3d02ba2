//! Atomic slot migration (`CLUSTER MIGRATESLOTS`, Valkey from 9.0): slots move as a whole, and their
//! locks with them.

use crate::support::{
    KEY, LONG_MS, SLOT, SOURCE, TARGET, answer, next_grant, sent, two_nodes, waiter,
};
use redis::Connection;
use std::time::Duration;
use testbed::cluster::slot;
use testbed::{Cluster, Expect, LockInfo, Server, Talk, cmd, eventually, run, wait, within};

/// Whether this server has it, and does not move slots key by key only.
pub(crate) fn has_atomic_migration() -> bool {
    Server::version().is_valkey_from(9, 0)
}

/// Two nodes, and what is told of the migrations from the source to the target.
pub(crate) struct Migration {
    pub(crate) cluster: Cluster,
}

impl Migration {
    pub(crate) fn source(&self) -> Connection {
        self.cluster.node(SOURCE).connection()
    }

    pub(crate) fn target(&self) -> Connection {
        self.cluster.node(TARGET).connection()
    }

    /// Starts to move these slots.
    #[track_caller]
    pub(crate) fn begin(&self, first: u16, last: u16) {
        let (first, last) = (first.to_string(), last.to_string());
        let id = self.cluster.id(TARGET);
        let words = ["MIGRATESLOTS", "SLOTSRANGE", &first, &last, "NODE", &id];
        self.cluster.order(SOURCE, &words);
    }

    /// The state of the last migration, in the eyes of a node, and what is said of it.
    #[track_caller]
    fn state(&self, node: usize) -> (String, String) {
        let mut c = self.cluster.node(node).connection();
        let migrations = cmd!(c, "CLUSTER", "GETSLOTMIGRATIONS").items();
        let last = migrations.into_iter().next().expect("a migration").fields();
        let field = |name: &str| last[name].clone().text();
        (field("state"), field("message"))
    }

    #[track_caller]
    pub(crate) fn wait_for_state(&self, node: usize, wanted: &str) {
        const ENDS: [&str; 3] = ["success", "failed", "cancelled"];
        let mut last = Default::default();
        let reached = || {
            last = self.state(node);
            last.0 == wanted || ENDS.contains(&last.0.as_str())
        };
        let what = format!("the migration to be in state {wanted}");
        within(Duration::from_secs(60), reached, &what);
        assert_eq!(last.0, wanted, "{}", last.1);
    }

    /// Moves these slots from source to target.
    #[track_caller]
    pub(crate) fn run(&self, first: u16, last: u16) {
        self.begin(first, last);
        self.wait_for_state(SOURCE, "success");
        self.cluster.wait_until_whole();
        assert_eq!(self.cluster.serves(first), TARGET);
    }

    /// Keeps migrations from their last step on the source, the pause, or lets them go on.
    #[track_caller]
    fn hold_before_pause(&self, hold: bool) {
        let words = format!("DEBUG SLOTMIGRATION PREVENT-PAUSE {}", i32::from(hold));
        run(&mut self.source(), &words).okay();
    }

    /// Starts to move the slot of [`KEY`], up to that step.
    #[track_caller]
    fn begin_and_hold(&self) {
        self.hold_before_pause(true);
        self.begin(SLOT, SLOT);
        self.wait_for_state(SOURCE, "waiting-to-pause");
    }

    /// Keeps migrations from their last step on the target, the change of owner, or lets them go on.
    #[track_caller]
    fn hold_in_pause(&self, hold: bool) {
        let words = format!("DEBUG SLOTMIGRATION PREVENT-FAILOVER {}", i32::from(hold));
        run(&mut self.target(), &words).okay();
    }
}

/// Two nodes and a connection to the source.
pub(crate) fn migration() -> (Migration, Connection) {
    let (cluster, source) = two_nodes();
    (Migration { cluster }, source)
}

/// A lock, and when it ends.
fn lock(c: &mut Connection, key: &str) -> (LockInfo, i64) {
    let mut info = cmd!(*c, "LOCK.INFO", key).lock_info();
    (info.ttl_ms, info.held_ms) = (0, 0);
    (info, cmd!(*c, "PEXPIRETIME", key).int())
}

#[test]
fn locks_move_whole_and_tokens_go_on_above_them() {
    testbed::needs!(has_atomic_migration());
    let cluster = Cluster::start_with(2, 1, |settings| settings.config("appendonly", "yes"));
    let migration = Migration { cluster };
    let mut source = migration.source();
    let (first, last) = (8192, SLOT);
    let keys: Vec<_> = (0..2000)
        .map(|n| format!("lock{n}"))
        .filter(|key| (first..=last).contains(&slot(key)))
        .collect();
    let stays = (0..).map(|n| format!("stays{n}"));
    let stays = stays.into_iter().find(|key| slot(key) > last);
    let stays = stays.expect("a key of a later slot");
    cmd!(source, "LOCK.ACQUIRE", &stays, "a", "PX", LONG_MS).grant();
    for (n, key) in keys.iter().enumerate() {
        let lease = 600_000 + n;
        cmd!(source, "LOCK.ACQUIRE", key, n, "PX", lease).grant();
        if n % 3 == 0 {
            cmd!(source, "LOCK.ACQUIRE", key, n).grant();
        }
        if n % 7 == 0 {
            cmd!(source, "PERSIST", key).int();
        }
    }
    let before: Vec<_> = keys.iter().map(|key| lock(&mut source, key)).collect();
    let last_token = migration.cluster.node(SOURCE).last_token();
    migration.run(first, last);

    let mut target = migration.target();
    let after: Vec<_> = keys.iter().map(|key| lock(&mut target, key)).collect();
    assert_eq!(before, after);
    let node = migration.cluster.node(TARGET);
    assert!(node.last_token() >= last_token);
    assert!(next_grant(&migration.cluster, TARGET).token > last_token);
    // The source has dropped them; the target's replica and file have them.
    let held = |node: usize| migration.cluster.node(node).count("held");
    eventually(|| held(SOURCE) == 1, "the source to drop its locks");
    cmd!(source, "LOCK.FENCE", &stays).int();
    let [replica] = migration.cluster.replicas_of(TARGET)[..] else {
        panic!("a replica expected");
    };
    node.wait_for_sync(migration.cluster.node(replica));
    assert_eq!(usize::try_from(held(replica)), Ok(keys.len()));
    let mut cluster = migration.cluster;
    cluster.node_mut(TARGET).restart();
    cluster.wait_until_whole();
    let mut target = cluster.node(TARGET).connection();
    let again: Vec<_> = keys.iter().map(|key| lock(&mut target, key)).collect();
    assert_eq!(before, again);
    assert!(next_grant(&cluster, TARGET).token > last_token);
}

#[test]
fn a_waiter_is_sent_after_the_lock() {
    testbed::needs!(has_atomic_migration());
    let (migration, mut source) = migration();
    let grant = cmd!(source, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    let mut lost = waiter(migration.cluster.node(SOURCE), "b");
    migration.run(SLOT, SLOT);
    let moved = sent("MOVED", &migration.cluster, TARGET);
    assert_eq!(answer(&mut lost).refused("MOVED"), moved);
    let mut again = waiter(migration.cluster.node(TARGET), "b");
    let mut target = migration.target();
    assert_eq!(cmd!(target, "LOCK.RELEASE", KEY, "a").int(), 0);
    assert!(again.receive().grant().token > grant.token);
}

#[test]
fn what_is_granted_while_the_slot_is_on_its_way_comes_over() {
    testbed::needs!(has_atomic_migration());
    let (migration, mut source) = migration();
    let keys =
        ["released", "expired", "deleted", "renewed", "freed"].map(|n| format!("{{foo}}{n}"));
    for key in &keys {
        cmd!(source, "LOCK.ACQUIRE", key, "a", "PX", LONG_MS).grant();
    }
    let node = migration.cluster.node(SOURCE);
    let call = |key| wait(node, &format!("{key} b PX {LONG_MS} BLOCK 0"));
    let mut waiters: Vec<_> = keys[..3].iter().map(call).collect();
    migration.begin_and_hold();
    // The snapshot has been taken: all that follows goes by the stream.
    cmd!(source, "LOCK.RELEASE", &keys[0], "a").int();
    cmd!(source, "PEXPIRE", &keys[1], 20).int();
    cmd!(source, "DEL", &keys[2]).int();
    cmd!(source, "LOCK.RENEW", &keys[3], "a", "PX", 700_000).grant();
    cmd!(source, "LOCK.RELEASE", &keys[4], "a").int();
    for waiter in &mut waiters {
        assert_eq!(answer(waiter).grant().owner, b"b");
    }
    let before: Vec<_> = keys[..4].iter().map(|key| lock(&mut source, key)).collect();
    let last_token = migration.cluster.node(SOURCE).last_token();
    migration.hold_before_pause(false);
    migration.wait_for_state(SOURCE, "success");
    migration.cluster.wait_until_whole();
    let mut target = migration.target();
    let after: Vec<_> = keys[..4].iter().map(|key| lock(&mut target, key)).collect();
    assert_eq!(before, after);
    cmd!(target, "LOCK.INFO", &keys[4]).nil();
    assert!(next_grant(&migration.cluster, TARGET).token > last_token);
}

#[test]
fn nothing_is_granted_in_the_pause_before_the_slot_changes_hands() {
    testbed::needs!(has_atomic_migration());
    let (migration, mut source) = migration();
    cmd!(source, "LOCK.ACQUIRE", KEY, "a", "PX", 1500).grant();
    let mut lost = waiter(migration.cluster.node(SOURCE), "b");
    migration.hold_in_pause(true);
    migration.begin(SLOT, SLOT);
    migration.wait_for_state(SOURCE, "failover-granted");
    // The lease ends in the pause, for the source and for the target.
    let over = || cmd!(source, "LOCK.INFO", KEY).value() == redis::Value::Nil;
    eventually(over, "the lease to end");
    let mut target = migration.target();
    cmd!(target, "LOCK.ACQUIRE", KEY, "b").refused("MOVED");
    assert_eq!(cmd!(source, "LOCK.WAITERS", KEY).items().len(), 1);
    migration.hold_in_pause(false);
    answer(&mut lost).refused("MOVED");
    migration.wait_for_state(SOURCE, "success");
    next_grant(&migration.cluster, TARGET);
}

#[test]
fn a_migration_that_is_called_off_leaves_the_locks_where_they_were() {
    testbed::needs!(has_atomic_migration());
    let (migration, mut source) = migration();
    let grant = cmd!(source, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    let mut waiter = waiter(migration.cluster.node(SOURCE), "b");
    migration.begin_and_hold();
    let held = || migration.cluster.node(TARGET).count("held");
    assert_eq!(held(), 1, "the lock is there, and not served");
    let mut target = migration.target();
    cmd!(target, "ASKING").okay();
    cmd!(target, "LOCK.ACQUIRE", KEY, "c").refused("MOVED");
    migration.cluster.order(SOURCE, &["CANCELSLOTMIGRATIONS"]);
    eventually(|| held() == 0, "the target to forget the lock");
    assert_eq!(cmd!(source, "LOCK.FENCE", KEY).int(), grant.token);
    assert_eq!(cmd!(source, "LOCK.RELEASE", KEY, "a").int(), 0);
    let next = answer(&mut waiter).grant().token;
    assert!(next > grant.token);
    // And another attempt.
    migration.hold_before_pause(false);
    migration.run(SLOT, SLOT);
    assert_eq!(cmd!(target, "LOCK.FENCE", KEY).int(), next);
}

#[test]
fn a_target_that_dies_or_is_flushed_leaves_the_locks_where_they_were() {
    testbed::needs!(has_atomic_migration());
    let (mut migration, mut source) = migration();
    let grant = cmd!(source, "LOCK.ACQUIRE", KEY, "a", "PX", LONG_MS).grant();
    migration.begin_and_hold();
    cmd!(migration.target(), "FLUSHALL").okay();
    migration.wait_for_state(SOURCE, "failed");
    assert_eq!(cmd!(source, "LOCK.FENCE", KEY).int(), grant.token);

    let mut waiter = waiter(migration.cluster.node(SOURCE), "b");
    migration.begin_and_hold();
    migration.cluster.node_mut(TARGET).kill9();
    migration.wait_for_state(SOURCE, "failed");
    // Sooner than the cluster knows that it is down.
    assert_eq!(cmd!(source, "LOCK.RELEASE", KEY, "a").int(), 0);
    assert!(answer(&mut waiter).grant().token > grant.token);
    migration.cluster.node_mut(TARGET).restart();
    migration.cluster.wait_until_whole();
    let node = migration.cluster.node(TARGET);
    assert_eq!(node.count("held"), 0);
}
