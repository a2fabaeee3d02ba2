//! `DUMP` and `RESTORE`: a grant carried as it is.

use crate::support::{deadline, lock_section, run, starts_lease, unchanged};
use redis::Connection;
use testbed::{Expect, cmd, dump, effect, started};

/// A lock held twice with a lease of a minute, and its payload.
fn dumped(c: &mut Connection) -> (i64, Vec<u8>) {
    run(c, "LOCK.ACQUIRE k a PX 60000").grant();
    let token = run(c, "LOCK.ACQUIRE k a").grant().token;
    (token, cmd!(*c, "DUMP", "k").bytes())
}

#[test]
fn a_restored_lock_is_the_grant_that_was_dumped() {
    let (_server, mut c) = started();
    let (token, payload) = dumped(&mut c);
    starts_lease(&mut c, "r", 40_000, |c| {
        cmd!(*c, "RESTORE", "r", 40_000, payload)
    })
    .okay();
    let info = run(&mut c, "LOCK.INFO r").lock_info();
    assert_eq!((info.token, info.holds, info.lease_ms), (token, 2, 60_000));
    assert_eq!(info.owner, b"a");
    assert_eq!(cmd!(c, "DUMP", "r").bytes(), payload);
    let digest = |c: &mut Connection, key| cmd!(*c, "DEBUG", "DIGEST-VALUE", key).items();
    assert_eq!(digest(&mut c, "r"), digest(&mut c, "k"));
    cmd!(c, "LOCK.RELEASE", "r", "a", "ALL", "TOKEN", token).int();
}

#[test]
fn a_ttl_of_0_acts_as_persist() {
    let (_server, mut c) = started();
    let (_, payload) = dumped(&mut c);
    cmd!(c, "RESTORE", "r", 0, payload).okay();
    assert_eq!(run(&mut c, "LOCK.INFO r").lock_info().ttl_ms, -1);
    run(&mut c, "LOCK.ACQUIRE r a").grant();
    assert_eq!(run(&mut c, "LOCK.RELEASE r a").int(), 2);
    assert_eq!(deadline(&mut c, "r"), -1);
    starts_lease(&mut c, "r", 60_000, |c| run(c, "LOCK.RENEW r a")).grant();
}

#[test]
fn a_payload_that_is_no_lock_is_refused_and_leaves_nothing_behind() {
    let (_server, mut c) = started();
    // Long, so that what is missing of it is more than the footer, and not to be compressed.
    let owner: Vec<u8> = (0..=255).collect();
    cmd!(c, "LOCK._APPLY", "k", effect(owner, 5, 2, 60_000, -1)).okay();
    let (value, version) = dump::split(&cmd!(c, "DUMP", "k").bytes());
    // Cut by two bytes it is whole again, with the footer's version in their place.
    for length in (0..value.len()).filter(|length| length + 2 != value.len()) {
        let cut = dump::reseal(&value[..length], version);
        unchanged(&mut c, "r", |c| cmd!(*c, "RESTORE", "r", 0, cut)).refused("ERR");
    }
    assert_eq!(lock_section(&mut c, "lock_held"), 1);
}
