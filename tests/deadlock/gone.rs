//! Waiters that are gone or granted, and grants that are kept or about to be given back.

use crate::support::{Stage, at_once, line, run};
use crate::waiting::unblocks;
use testbed::{Expect, Talk, eventually};

/// `b` holds `k` and waits for `j`, which `w` holds.
fn two() -> Stage {
    let mut stage = Stage::new();
    stage.hold(["j w", "k b"]);
    stage.wait(["j b"]);
    stage
}

/// What `w` is told of `k` right after these.
fn asked_after(stage: &mut Stage, changes: &[String]) -> testbed::Reply {
    let mut lines: Vec<_> = changes.iter().map(String::as_str).collect();
    lines.push("LOCK.ACQUIRE k w BLOCK 30");
    at_once(&mut stage.c, &lines).pop().unwrap()
}

#[test]
fn who_was_killed_does_not_wait() {
    let mut stage = two();
    let id = stage.waiter_id("j b");
    asked_after(&mut stage, &[format!("CLIENT KILL ID {id}")]).nil();
    assert_eq!(stage.count(), 0);
}

#[test]
fn who_was_unblocked_does_not_wait() {
    if !unblocks() {
        println!("skipped: this server cannot unblock a module's client safely");
        return;
    }
    for how in ["TIMEOUT", "ERROR"] {
        let mut stage = two();
        let id = stage.waiter_id("j b");
        asked_after(&mut stage, &[format!("CLIENT UNBLOCK {id} {how}")]).nil();
        assert_eq!(stage.count(), 0);
    }
}

#[test]
fn who_was_called_off_does_not_wait() {
    let mut stage = two();
    asked_after(&mut stage, &["LOCK.RELEASE j b ALL".to_owned()]).nil();
    stage.waiter("j b").receive().nil();
}

#[test]
fn who_was_granted_does_not_wait_also_when_it_is_gone_before_the_reply() {
    let mut stage = two();
    asked_after(&mut stage, &["LOCK.RELEASE j w".to_owned()]).nil();
    assert_eq!(stage.granted("j b").owner, b"b");

    let mut stage = two();
    let id = stage.waiter_id("j b");
    let changes = [
        "LOCK.RELEASE j w".to_owned(),
        format!("CLIENT KILL ID {id}"),
    ];
    asked_after(&mut stage, &changes).nil();
    eventually(|| stage.run("EXISTS j").int() == 0, "j to be given back");
    assert_eq!(stage.count(), 0);
}

#[test]
fn who_has_closed_does_not_wait() {
    let mut stage = two();
    drop(stage.waiter("j b"));
    eventually(
        || testbed::waiters(&mut stage.c, "j").is_empty(),
        "b to be gone",
    );
    stage.wait(["k w"]);
}

#[test]
fn what_the_caller_keeps_is_kept_on() {
    let mut stage = Stage::new();
    let mut keeper = stage.server.connection();
    run(&mut keeper, "LOCK.ACQUIRE j w PX 1500 KEEP 60000").grant();
    run(&mut keeper, "LOCK.ACQUIRE k b PX 1500 KEEP 60000").grant();
    stage.wait(["j b"]);
    stage.told("k w", 2);
    stage.told("k w KEEP 5000 PX 3000", 2);
    assert_eq!(stage.server.info_field("lock", "lock_kept"), "2");
    let renewed = |stage: &Stage| -> u64 {
        let count = stage.server.info_field("lock", "lock_kept_renewals");
        count.parse().unwrap()
    };
    let before = renewed(&stage);
    eventually(|| renewed(&stage) >= before + 4, "both to be renewed twice");
    stage.told("k w", 2);
    run(&mut keeper, "PING").text();
    stage.all_wait();
    // The connection that keeps may be the one that is told: it keeps on.
    let reply = run(&mut keeper, "LOCK.ACQUIRE k w BLOCK 10000");
    reply.refused("DEADLOCK");
    run(&mut keeper, "PING").text();
    assert_eq!(stage.server.info_field("lock", "lock_kept_closes"), "0");
}

#[test]
fn a_kept_grant_that_is_lost_opens_the_way() {
    let mut stage = Stage::new();
    let mut keeper = stage.server.connection();
    run(&mut keeper, "LOCK.ACQUIRE j w PX 1500 KEEP 60000").grant();
    stage.hold(["k b"]);
    stage.wait(["j b"]);
    stage.told("k w", 2);
    let id = run(&mut keeper, "CLIENT ID").int();
    drop(keeper);
    let _ = id;
    // Nobody renews it any more, and its lease ends.
    assert_eq!(stage.granted("j b").owner, b"b");
    let mut c = stage.server.connection();
    c.post(&line("LOCK.ACQUIRE k w BLOCK 30"));
    c.receive().nil();
}
