//! Waiters that are gone or granted, and grants that are renewed or about to be given back.

use crate::support::{Stage, at_once, line, run};
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
fn a_caller_that_is_told_goes_on_with_its_session() {
    let mut stage = Stage::new();
    let mut program = stage.server.connection();
    let session = run(&mut program, "LOCK.SESSION OPEN").int();
    let in_session = format!("PX 1500 SESSION {session}");
    run(&mut program, &format!("LOCK.ACQUIRE j w {in_session}")).grant();
    run(&mut program, &format!("LOCK.ACQUIRE k b {in_session}")).grant();
    stage.wait(["j b"]);
    stage.told(&format!("k w SESSION {session}"), 2);
    let renewed = |stage: &Stage| -> u64 {
        let count = stage.server.info_field("lock", "lock_session_renewals");
        count.parse().unwrap()
    };
    let before = renewed(&stage);
    eventually(|| renewed(&stage) >= before + 4, "both to be renewed twice");
    stage.all_wait();
    // The connection that polls may be the one that is told.
    let queued = format!("LOCK.ACQUIRE k w QUEUE 10000 HOLDS 1 SESSION {session}");
    run(&mut program, &queued).refused("DEADLOCK");
    assert_eq!(stage.server.info_field("lock", "lock_session_grants"), "2");
}

#[test]
fn a_grant_that_is_renewed_no_more_opens_the_way() {
    let mut stage = Stage::new();
    let mut program = stage.server.connection();
    let session = run(&mut program, "LOCK.SESSION OPEN").int();
    let acquire = format!("LOCK.ACQUIRE j w PX 1500 SESSION {session}");
    run(&mut program, &acquire).grant();
    stage.hold(["k b"]);
    stage.wait(["j b"]);
    stage.told("k w", 2);
    drop(program);
    // Its lease ends.
    assert_eq!(stage.granted("j b").owner, b"b");
    let mut c = stage.server.connection();
    c.post(&line("LOCK.ACQUIRE k w BLOCK 30"));
    c.receive().nil();
}
