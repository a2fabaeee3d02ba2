//! Writes that are paused.

use testbed::state::unix_ms;
use testbed::{
    Copies, Expect, Talk, Waiter, eventually, held, line, nobody_waits, owner, queue, run,
    transaction, wait, wait_as,
};

/// Lets the lease of `a` end in a pause of this kind, with two waiting and a newcomer who comes in
/// the pause, and demands that all continues in order afterwards.
fn pause_across_the_end_of_a_lease(mode: &str, newcomers_call: &str) -> (Copies, Waiter) {
    let (copies, mut c) = Copies::held();
    let mut first = wait(&copies, "k b PX 600000 BLOCK 0");
    let [mut second] = wait_as(&copies, ["c"]);
    let end = unix_ms() + 400;
    // The lease is not to end before the pause.
    let pause = format!("CLIENT PAUSE 400 {mode}");
    transaction(&mut c, &["LOCK.RENEW k a PX 40", &pause]);
    let mut newcomer = copies.connection();
    newcomer.post(&line(newcomers_call));
    let grant = first.granted();
    assert!(
        grant.token >= end * 1000,
        "granted in the pause, {end}: {grant:?}"
    );
    newcomer.receive().nil();
    eventually(|| queue(&mut c) == ["c"], "one to wait");
    assert_eq!(owner(&mut c), "b");
    run(&mut c, "LOCK.RELEASE k b").int();
    second.granted();
    (copies, second)
}

#[test]
fn a_lease_that_ends_in_a_pause_is_handed_over_afterwards() {
    for (mode, wait) in [("WRITE", ""), ("ALL", ""), ("WRITE", " BLOCK 20")] {
        let newcomer = format!("LOCK.ACQUIRE k newcomer PX 600000{wait}");
        let (copies, _second) = pause_across_the_end_of_a_lease(mode, &newcomer);
        nobody_waits(&copies);
        copies.agree();
    }
}

#[test]
fn a_wait_that_ends_in_a_pause_ends_in_time() {
    let (server, mut c) = held();
    let mut waiter = wait(&server, "k b BLOCK 1000");
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    waiter.receive().nil();
    assert_eq!(queue(&mut c), [""; 0]);
    // It may leave in other ways too.
    run(&mut c, "CLIENT UNPAUSE").okay();
    let [gone] = wait_as(&server, ["c"]);
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    drop(gone);
    nobody_waits(&server);
    run(&mut c, "CLIENT UNPAUSE").okay();
}

/// What was in the write of a release, and what comes after the pause, is served in order too.
#[test]
fn a_release_that_waits_out_a_pause_hands_over() {
    let (copies, mut c) = Copies::held();
    let [mut first] = wait_as(&copies, ["b"]);
    run(&mut c, "CLIENT PAUSE 200 WRITE").okay();
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    first.granted();
    copies.agree();
}
