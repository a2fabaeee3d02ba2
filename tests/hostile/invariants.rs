//! What is true of every server at every moment.

use crate::values::TOKENS;
use crate::*;
use redis::{Connection, Value};
use testbed::{Grant, LockInfo, eventually};

const MOST_HOLDS: i64 = (1 << 31) - 1;
const LONGEST_LEASE: i64 = 315_360_000_000;

/// Demands that no process has crashed, and that no panic of the module was caught.
#[track_caller]
pub(crate) fn check_log(server: &Server) {
    assert_eq!(server.signs_of_a_crash(), [""; 0], "in the log");
}

/// Demands that every lock is sound, and that the module counts them right.
#[track_caller]
pub(crate) fn check_server(server: &Server) {
    let mut c = server.connection();
    eventually(
        || {
            let databases = server.databases().into_iter();
            let counted: usize = databases.map(|number| check_database(&mut c, number)).sum();
            usize::try_from(server.count("held")) == Ok(counted)
        },
        "the count of locks to be that of the keys",
    );
}

/// Looks at each key of a database; how many are locks.
#[track_caller]
fn check_database(c: &mut Connection, database: i64) -> usize {
    cmd!(*c, "SELECT", database).okay();
    let keys: Vec<_> = cmd!(*c, "KEYS", "*").items();
    let keys: Vec<_> = keys.into_iter().map(Expect::bytes).collect();
    let types = all(c, "TYPE", &keys);
    let mut locks = Vec::new();
    for (key, reply) in keys.into_iter().zip(types) {
        if reply.text() == "RedisLock" {
            locks.push(key);
        }
    }
    for reply in all(c, "LOCK.INFO", &locks) {
        match reply.value() {
            Value::Nil => {} // its lease has ended just now
            fields => check_info(&fields.lock_info()),
        }
    }
    locks.len()
}

/// One command for each key, in one go.
fn all(c: &mut Connection, name: &str, keys: &[Vec<u8>]) -> Vec<Reply> {
    for key in keys {
        c.post(redis::cmd(name).arg(key));
    }
    keys.iter().map(|_| c.receive()).collect()
}

/// Demands that a lock's fields are within their bounds.
#[track_caller]
pub(crate) fn check_info(info: &LockInfo) {
    check_lock(&info.owner, info.token, info.holds, info.lease_ms);
    assert!(info.ttl_ms >= -1, "{info:?}");
    assert!(info.held_ms >= 0 && info.waiters >= 0, "{info:?}");
}

/// Demands that what is told of a waiter is within its bounds.
#[track_caller]
pub(crate) fn check_waiter(waiter: Value) {
    let mut fields = waiter.fields();
    let mut take = |name| fields.remove(name).unwrap_or_else(|| panic!("no {name}"));
    assert!((1..=256).contains(&take("owner").bytes().len()));
    assert!(take("client-id").int() > 0);
    assert!(take("waited-ms").int() >= 0);
    assert!(take("left-ms").int() >= -1);
    assert!((0..1 << 31).contains(&take("limit").int()));
    assert!(take("session").int() >= 0);
    assert!(fields.is_empty(), "{fields:?}");
}

/// Demands that a grant's fields are within their bounds.
#[track_caller]
pub(crate) fn check_grant(grant: &Grant) {
    check_lock(&grant.owner, grant.token, grant.holds, grant.lease);
}

#[track_caller]
fn check_lock(owner: &[u8], token: i64, holds: i64, lease: i64) {
    assert!((1..=256).contains(&owner.len()), "owner {owner:?}");
    assert!((1..TOKENS).contains(&token), "token {token}");
    assert!((1..=MOST_HOLDS).contains(&holds), "holds {holds}");
    assert!((1..=LONGEST_LEASE).contains(&lease), "lease {lease}");
}

/// What is so of everything that `LOCK.HOTKEYS` tells.
pub(crate) fn check_hot_key(value: Value) {
    let mut fields = value.fields();
    fields.remove("key").expect("a key").bytes();
    let mut take = |name: &str| fields.remove(name).expect(name).int();
    let (waits, timeouts, expirations) = (take("waits"), take("timeouts"), take("expirations"));
    let (total, longest) = (take("total-wait-ms"), take("longest-wait-ms"));
    assert!(timeouts >= 0 && timeouts <= waits && expirations >= 0);
    assert!(longest >= 0 && longest <= total);
    assert!(waits > 0 || expirations > 0);
}
