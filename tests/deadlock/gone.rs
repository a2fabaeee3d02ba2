//! Waiters that are gone or granted, and grants that are renewed or about to be given back.

use crate::support::Stage;
use testbed::{Expect, Talk, await_renewals, eventually, line, run};

/// `b` holds `k` and waits for `j`, which `w` holds.
fn two() -> Stage {
    let mut stage = Stage::new();
    stage.hold(["j w", "k b"]);
    stage.wait(["j b"]);
    stage
}

#[test]
fn who_was_granted_does_not_wait_also_when_it_is_gone_before_the_reply() {
    let mut stage = two();
    stage.asked_after(&["LOCK.RELEASE j w"]).nil();
    assert_eq!(stage.granted("j b").owner, b"b");

    let mut stage = two();
    let id = stage.waiter_id("j b");
    let kill = format!("CLIENT KILL ID {id}");
    stage.asked_after(&["LOCK.RELEASE j w", &kill]).nil();
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
    // Both twice.
    await_renewals(&stage.server, 4);
    stage.all_wait();
    // The connection that polls may be the one that is told.
    let queued = format!("LOCK.ACQUIRE k w QUEUE 10000 HOLDS 1 SESSION {session}");
    run(&mut program, &queued).refused("DEADLOCK");
    assert_eq!(stage.server.count("session_grants"), 2);
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
