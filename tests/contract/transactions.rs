//! `MULTI`, `EXEC` and `WATCH`.

use crate::support::{now_us, run};
use redis::{Connection, Value};
use testbed::{Expect, Server, at_once, cmd, eventually, started, transaction};

/// Whether a transaction is carried out, for all that its connection watches.
#[track_caller]
fn carried_out(c: &mut Connection) -> bool {
    let exec = at_once(c, &["MULTI", "PING", "EXEC"]).pop();
    exec.expect("a reply to EXEC").value() != Value::Nil
}

/// Whether a transaction that watches `k` is still carried out after these calls.
#[track_caller]
fn survives(server: &Server, lines: &[impl AsRef<str>]) -> bool {
    let mut watching = server.connection();
    run(&mut watching, "WATCH k").okay();
    let mut other = server.connection();
    for line in lines {
        let _ = run(&mut other, line.as_ref());
    }
    carried_out(&mut watching)
}

#[test]
fn commands_of_a_transaction_reply_as_outside_of_one() {
    let (_server, mut c) = started();
    let results = transaction(
        &mut c,
        &[
            "LOCK.ACQUIRE k a",
            "LOCK.ACQUIRE k b",
            "LOCK.ACQUIRE k a HOLDS 2",
            "LOCK.RENEW k a PX 60000",
            "LOCK.FENCE k",
            "LOCK.INFO k",
            "LOCK.RELEASE k a ALL",
            "LOCK.INFO k",
        ],
    );
    let mut results = results.into_iter();
    let mut next = || results.next().expect("a result");
    let grant = next().grant();
    next().nil();
    assert_eq!(next().grant().holds, 2);
    assert_eq!(next().grant().lease, 60_000);
    assert_eq!(next().int(), grant.token);
    assert_eq!(next().lock_info().token, grant.token);
    assert_eq!(next().int(), 0);
    next().nil();
}

#[test]
fn after_an_error_the_rest_of_a_transaction_still_runs() {
    let (_server, mut c) = started();
    let lines = ["LOCK.FENCE k 1", "LOCK.RELEASE k a", "SET written 1"];
    let results = transaction(&mut c, &lines);
    results[0].clone().refused("FENCED");
    results[1].clone().refused("NOTHELD");
    results[2].clone().okay();
    assert_eq!(run(&mut c, "GET written").text(), "1");
}

#[test]
fn block_never_waits_in_a_transaction() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    let calls = ["k b", "free b", "k a"].map(|call| format!("LOCK.ACQUIRE {call} BLOCK 0"));
    let results = transaction(&mut c, &calls);
    results[0].clone().nil();
    assert_eq!(results[1].clone().grant().holds, 1);
    assert_eq!(results[2].clone().grant().holds, 2);
}

#[test]
fn every_change_of_a_lock_aborts_who_watches_it() {
    let (server, mut c) = started();
    assert!(!survives(&server, &["LOCK.ACQUIRE k a PX 60000"]));
    let token = run(&mut c, "LOCK.FENCE k").int();
    let raised = now_us() + 1_000_000;
    for line in [
        "LOCK.ACQUIRE k a".to_owned(),
        "LOCK.ACQUIRE k a HOLDS 3".to_owned(),
        "LOCK.ACQUIRE k a HOLDS 1 PX 90000".to_owned(),
        "LOCK.RENEW k a PX 70000".to_owned(),
        format!("LOCK.RENEW k a TOKEN {token} RAISE {raised}"),
        "LOCK.RELEASE k a".to_owned(),
        "LOCK.RELEASE k a HOLDS 1".to_owned(),
        "PERSIST k".to_owned(),
        "PEXPIRE k 60000".to_owned(),
        "LOCK.RELEASE k a".to_owned(),
        "LOCK._APPLY k a 5 1 1000 -1".to_owned(),
        "DEL k".to_owned(),
    ] {
        assert!(!survives(&server, &[&line]), "{line}");
    }
}

#[test]
fn the_end_of_a_lease_aborts_who_watches_the_lock() {
    let server = Server::start();
    let (mut watching, mut c) = (server.connection(), server.connection());
    let watches_in_time = || {
        run(&mut watching, "UNWATCH").okay();
        run(&mut c, "LOCK.ACQUIRE k a PX 20").grant();
        run(&mut watching, "WATCH k").okay();
        run(&mut watching, "EXISTS k").int() == 1
    };
    eventually(watches_in_time, "the lock to be watched while it is held");
    eventually(|| run(&mut c, "EXISTS k").int() == 0, "the lease to end");
    assert!(!carried_out(&mut watching));
}

#[test]
fn what_changes_nothing_aborts_no_one() {
    let (server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    let token = run(&mut c, "LOCK.FENCE k").int();
    let ahead = now_us() + 3_600_000_000;
    let lines = [
        "LOCK.INFO k".to_owned(),
        "LOCK.FENCE k".to_owned(),
        format!("LOCK.FENCE k {token}"),
        "LOCK.FENCE k 1".to_owned(),
        "LOCK.ACQUIRE k b".to_owned(),
        "LOCK.ACQUIRE k b BLOCK 1".to_owned(),
        "LOCK.ACQUIRE k b HOLDS 2".to_owned(),
        "LOCK.ACQUIRE k a HOLDS 3".to_owned(),
        "LOCK.ACQUIRE k a TOKEN 1".to_owned(),
        "LOCK.ACQUIRE k a PX 0".to_owned(),
        "LOCK.RELEASE k b".to_owned(),
        "LOCK.RELEASE k a TOKEN 1".to_owned(),
        "LOCK.RELEASE k a HOLDS 1".to_owned(),
        "LOCK.RELEASE k a HOLDS x".to_owned(),
        "LOCK.RENEW k b".to_owned(),
        "LOCK.RENEW k a TOKEN 1".to_owned(),
        format!("LOCK.RENEW k a TOKEN {token} RAISE {ahead}"),
    ];
    for line in &lines {
        assert!(survives(&server, &[line]), "{line}");
    }
    assert!(survives(&server, &lines));
    run(&mut c, "DEL k").int();
    for line in [
        "LOCK.RELEASE k a",
        "LOCK.RENEW k a",
        "LOCK.FENCE k",
        "LOCK.INFO k",
        "LOCK.ACQUIRE k a HOLDS 2",
    ] {
        assert!(survives(&server, &[line]), "{line} on a free lock");
    }
    run(&mut c, "SET k text").okay();
    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.RELEASE k a",
        "LOCK.RENEW k a",
        "LOCK.FENCE k",
        "LOCK.INFO k",
    ] {
        assert!(survives(&server, &[line]), "{line} on another type");
    }
}

/// The holder's way to write under its grant: `WATCH`, `FENCE`, `MULTI`.
fn fenced_write(c: &mut Connection, token: i64, between: impl FnOnce()) -> Value {
    run(c, "WATCH k").okay();
    if cmd!(*c, "LOCK.FENCE", "k", token).is_err() {
        run(c, "UNWATCH").okay();
        return Value::Nil;
    }
    between();
    run(c, "MULTI").okay();
    run(c, "INCR written").value();
    run(c, "EXEC").value()
}

#[test]
fn watch_and_fence_guard_a_transaction() {
    let server = Server::start();
    let (mut c, mut other) = (server.connection(), server.connection());
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    assert_ne!(fenced_write(&mut c, token, || {}), Value::Nil);
    assert_eq!(run(&mut c, "GET written").text(), "1");

    let lose = || {
        run(&mut other, "DEL k").int();
        run(&mut other, "LOCK.ACQUIRE k b").grant();
    };
    fenced_write(&mut c, token, lose).nil();
    fenced_write(&mut c, token, || {}).nil();
    assert_eq!(run(&mut c, "GET written").text(), "1");
}
