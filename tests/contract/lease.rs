//! The lease is the key's TTL: what it means that an administrator moves it or takes it away.

use crate::support::{deadline, now_ms, run, starts_lease};
use redis::Connection;
use testbed::{Expect, cmd, eventually, started};

#[test]
fn pexpire_moves_the_end_and_not_the_remembered_lease() {
    let (_server, mut c) = started();
    let token = run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant().token;
    starts_lease(&mut c, "k", 5_000, |c| run(c, "PEXPIRE k 5000")).int();
    let info = run(&mut c, "LOCK.INFO k").lock_info();
    assert!(info.ttl_ms <= 5_000);
    assert_eq!((info.lease_ms, info.token, info.holds), (60_000, token, 1));
}

#[test]
fn a_lease_that_was_prolonged_stays_so_until_it_is_renewed() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    let far = now_ms() + 600_000;
    cmd!(c, "PEXPIREAT", "k", far).int();
    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a HOLDS 2 PX 100",
        "LOCK.RELEASE k a",
    ] {
        run(&mut c, line).value();
        assert_eq!(deadline(&mut c, "k"), far, "after {line}");
    }
    starts_lease(&mut c, "k", 60_000, |c| run(c, "LOCK.RENEW k a")).grant();
}

/// A lock of a whose lease has ended, and which the server has not yet taken away.
fn overdue(c: &mut Connection) -> i64 {
    run(c, "DEBUG SET-ACTIVE-EXPIRE 0").okay();
    run(c, "DEL k").int();
    let token = run(c, "LOCK.ACQUIRE k a PX 1").grant().token;
    let over = now_ms() + 1;
    eventually(|| now_ms() > over, "the lease to end");
    token
}

#[test]
fn a_lease_that_has_ended_counts_as_ended_before_the_server_takes_the_key_away() {
    let (_server, mut c) = started();
    for (call, code) in [
        ("LOCK.RELEASE k a", "NOTHELD"),
        ("LOCK.RELEASE k a HOLDS 1", "NOTHELD"),
        ("LOCK.RENEW k a", "NOTHELD"),
        ("LOCK.RENEW k a TOKEN TOKEN", "NOTHELD"),
        ("LOCK.ACQUIRE k a HOLDS 2", "NOTHELD"),
        ("LOCK.ACQUIRE k b HOLDS 2", "NOTHELD"),
        ("LOCK.ACQUIRE k a TOKEN TOKEN", "NOTHELD"),
        ("LOCK.FENCE k TOKEN", "FENCED"),
    ] {
        let token = overdue(&mut c).to_string();
        let (line, last) = call.rsplit_once(' ').expect("several words");
        let last = if last == "TOKEN" { &token } else { last };
        run(&mut c, &format!("{line} {last}")).refused(code);
    }
    for look in ["LOCK.FENCE k", "LOCK.INFO k"] {
        overdue(&mut c);
        run(&mut c, look).nil();
    }
    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k b",
        "LOCK.ACQUIRE k b HOLDS 1",
    ] {
        let ended = overdue(&mut c);
        let grant = run(&mut c, line).grant();
        assert_eq!(grant.holds, 1);
        assert!(grant.token > ended);
    }
}
