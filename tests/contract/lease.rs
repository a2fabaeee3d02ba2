//! The lease is the key's TTL: what it means that an administrator moves it or takes it away.

use crate::support::{deadline, now_ms, run, starts_lease, unchanged};
use redis::Connection;
use testbed::{Expect, Server, cmd, eventually};

/// A lock held twice by a with a lease of a minute, persisted.
fn persisted(c: &mut Connection) -> i64 {
    run(c, "LOCK.ACQUIRE k a PX 60000").grant();
    let token = run(c, "LOCK.ACQUIRE k a").grant().token;
    assert_eq!(run(c, "PERSIST k").int(), 1);
    token
}

#[test]
fn pexpire_moves_the_end_and_not_the_remembered_lease() {
    let server = Server::start();
    let mut c = server.connection();
    let token = run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant().token;
    starts_lease(&mut c, "k", 5_000, |c| run(c, "PEXPIRE k 5000")).int();
    let info = run(&mut c, "LOCK.INFO k").lock_info();
    assert!(info.ttl_ms <= 5_000);
    assert_eq!((info.lease_ms, info.token, info.holds), (60_000, token, 1));
}

#[test]
fn a_lease_that_was_prolonged_stays_so_until_it_is_renewed() {
    let server = Server::start();
    let mut c = server.connection();
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

#[test]
fn persist_holds_a_lock_through_reentry_and_partial_release() {
    let server = Server::start();
    let mut c = server.connection();
    persisted(&mut c);
    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a PX 1000",
        "LOCK.ACQUIRE k a HOLDS 4",
        "LOCK.RELEASE k a",
        "LOCK.RELEASE k a HOLDS 1",
    ] {
        run(&mut c, line).value();
        assert_eq!(deadline(&mut c, "k"), -1, "after {line}");
        assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().ttl_ms, -1);
    }
    run(&mut c, "LOCK.ACQUIRE k b").nil();
}

#[test]
fn a_persisted_lock_ends_with_its_last_release_or_del() {
    let server = Server::start();
    let mut c = server.connection();
    persisted(&mut c);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a ALL").int(), 0);
    persisted(&mut c);
    assert_eq!(run(&mut c, "DEL k").int(), 1);
    run(&mut c, "LOCK.ACQUIRE k b").grant();
}

#[test]
fn a_refused_call_leaves_a_persisted_lock_alone() {
    let server = Server::start();
    let mut c = server.connection();
    let token = persisted(&mut c);
    let stale = token - 1;
    for line in [
        "LOCK.ACQUIRE k b",
        "LOCK.RENEW k b",
        "LOCK.RELEASE k b ALL",
        &format!("LOCK.RENEW k a TOKEN {stale}"),
        "LOCK.RELEASE k a HOLDS 2",
    ] {
        let _ = unchanged(&mut c, "k", |c| run(c, line));
    }
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
    let server = Server::start();
    let mut c = server.connection();
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
