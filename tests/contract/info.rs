//! `LOCK.INFO` and the section `INFO lock`.

use crate::support::{lock_section, now_us, run, unchanged};
use redis::Connection;
use testbed::{Expect, LockInfo, cmd, effect, eventually, started};

fn info(c: &mut Connection) -> LockInfo {
    unchanged(c, "k", |c| run(c, "LOCK.INFO k")).lock_info()
}

#[test]
fn a_held_lock_tells_its_fields() {
    let (_server, mut c) = started();
    let token = run(&mut c, "LOCK.ACQUIRE k some-owner PX 60000")
        .grant()
        .token;
    run(&mut c, "LOCK.ACQUIRE k some-owner").grant();
    let told = info(&mut c);
    let expected = LockInfo {
        owner: b"some-owner".to_vec(),
        token,
        holds: 2,
        lease_ms: 60_000,
        ttl_ms: told.ttl_ms,
        held_ms: told.held_ms,
        waiters: 0,
        holders: 1,
        limit: 1,
    };
    assert_eq!(told, expected);
    assert!((1..=60_000).contains(&told.ttl_ms), "{told:?}");
}

#[test]
fn the_time_left_falls_while_the_time_held_rises() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    let first = info(&mut c);
    let moved = || {
        let now = info(&mut c);
        now.ttl_ms <= first.ttl_ms - 3 && now.held_ms >= first.held_ms + 3
    };
    eventually(moved, "both to move");
    let left = info(&mut c).ttl_ms;
    let pttl = cmd!(c, "PTTL", "k").int();
    assert!((left - 1000..=left).contains(&pttl), "{pttl} beside {left}");
}

#[test]
fn a_grant_with_a_token_ahead_of_time_has_stood_for_no_time() {
    let (_server, mut c) = started();
    let token = now_us() + 3_600_000_000;
    cmd!(c, "LOCK._APPLY", "k", effect("a", token, 1, 1000, -1)).okay();
    assert_eq!(info(&mut c).held_ms, 0);
}

#[test]
fn info_lock_counts_the_held_locks_and_tells_the_last_token() {
    let (_server, mut c) = started();
    assert_eq!(lock_section(&mut c, "lock_held"), 0);
    assert_eq!(lock_section(&mut c, "lock_last_token"), 0);
    for (key, held) in ["k1", "k2", "k3"].into_iter().zip(1..) {
        let grant = cmd!(c, "LOCK.ACQUIRE", key, "a").grant();
        assert_eq!(lock_section(&mut c, "lock_held"), held);
        assert_eq!(lock_section(&mut c, "lock_last_token"), grant.token);
    }
    let last = lock_section(&mut c, "lock_last_token");
    run(&mut c, "LOCK.RELEASE k3 a").int();
    assert_eq!(lock_section(&mut c, "lock_held"), 2);
    assert_eq!(lock_section(&mut c, "lock_last_token"), last);
}
