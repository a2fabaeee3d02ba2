//! Paused writes, and other states of the server in which a new acquire would be refused.

use redis::{Connection, Value};
use testbed::state::unix_ms;
use testbed::{
    Copies, Expect, Server, Talk, Waiter, cmd, eventually, held, held_and_waited_for, info, line,
    nobody_waits, owner, queue, run, transaction, wait, wait_as,
};

/// The lease of `a` ends while a newcomer is refused: nothing is granted until there are replicas again, and all
/// continues in order then.
#[test]
fn too_few_replicas_hold_grants_back() {
    let (server, mut c) = held();
    let [mut first, mut second] = wait_as(&server, ["b", "c"]);
    // In one transaction, so that the lease does not end before.
    let lines = ["PEXPIRE k 50", "CONFIG SET min-replicas-to-write 1"];
    transaction(&mut c, &lines);
    run(&mut c, "LOCK.ACQUIRE other x").refused("NOREPLICAS");
    let free = |c: &mut Connection| run(c, "LOCK.INFO k").value() == Value::Nil;
    eventually(|| free(&mut c), "the lease's end");
    for _ in 0..100 {
        run(&mut c, "LOCK.ACQUIRE k newcomer").refused("NOREPLICAS");
        assert_eq!(queue(&mut c), ["b", "c"]);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert!(free(&mut c), "granted all the same");
    run(&mut c, "CONFIG SET min-replicas-to-write 0").okay();
    assert_eq!(first.granted().owner, b"b");
    held_and_waited_for(&mut c, &["b"], &["c"]);
    run(&mut c, "LOCK.RELEASE k b").int();
    second.granted();
}

#[test]
fn a_failed_save_stops_renewals_until_a_save_succeeds() {
    let server = Server::builder().config("save", "3600 1").start();
    let mut c = server.connection();
    let before = run(&mut c, "LOCK.ACQUIRE k a PX 4000").grant();
    let [mut first] = wait_as(&server, ["b"]);
    server.fail_to_save();
    run(&mut c, "LOCK.RENEW k a PX 600000").refused("MISCONF");
    run(&mut c, "LOCK.RELEASE k a").refused("MISCONF");
    run(&mut c, "LOCK.FENCE k").refused("MISCONF");
    // What only looks is answered.
    assert_eq!(info(&mut c).token, before.token);
    assert_eq!(queue(&mut c), ["b"]);

    let free = |c: &mut Connection| cmd!(*c, "LOCK.INFO", "k").value() == Value::Nil;
    eventually(|| free(&mut c), "the lease's end");
    for _ in 0..100 {
        assert!(free(&mut c) && first.is_blocked(&mut c));
        std::thread::sleep(std::time::Duration::from_millis(1));
    }

    server.save_again();
    assert!(first.granted().token > before.token);
    run(&mut c, "LOCK.RENEW k a").refused("NOTOWNER");
    assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
}

#[test]
fn a_failed_save_stops_nothing_where_the_settings_say_so() {
    let server = Server::builder()
        .config("save", "3600 1")
        .config("stop-writes-on-bgsave-error", "no")
        .start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first] = wait_as(&server, ["b"]);
    server.fail_to_save();
    run(&mut c, "LOCK.RENEW k a").grant();
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    first.granted();
}

#[test]
fn a_full_memory_stops_no_hand_off() {
    let (copies, mut c) = Copies::held();
    let mut by_release = wait(&copies, "k b PX 600000 BLOCK 0");
    let mut by_expiry = wait(&copies, "k c PX 600000 BLOCK 0");
    let mut by_deletion = wait(&copies, "k d PX 600000 BLOCK 0");
    run(&mut c, "CONFIG SET maxmemory-policy noeviction maxmemory 1").okay();
    run(&mut c, "LOCK.ACQUIRE other x").refused("OOM");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    by_release.granted();
    assert_eq!(run(&mut c, "PEXPIRE k 30").int(), 1);
    by_expiry.granted();
    assert_eq!(run(&mut c, "DEL k").int(), 1);
    by_deletion.granted();
    assert_eq!(owner(&mut c), "d");
    run(&mut c, "CONFIG SET maxmemory 0").okay();
    copies.agree();
}

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
