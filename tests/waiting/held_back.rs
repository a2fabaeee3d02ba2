//! Paused writes, and other states of the server in which a new acquire would be refused.

use redis::{Connection, Value};
use testbed::state::unix_ms;
use testbed::{
    Copies, Expect, Server, Talk, eventually, held, held_and_waited_for, info, line, nobody_waits,
    owner, queue, run, transaction, wait, wait_as,
};

/// Whether nobody holds `k`.
fn free(c: &mut Connection) -> bool {
    run(c, "LOCK.INFO k").value() == Value::Nil
}

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
    let (server, mut c) = Server::builder().config("save", "3600 1").started();
    let before = run(&mut c, "LOCK.ACQUIRE k a PX 4000").grant();
    let [mut first] = wait_as(&server, ["b"]);
    server.fail_to_save();
    for call in [
        "LOCK.RENEW k a PX 600000",
        "LOCK.RELEASE k a",
        "LOCK.FENCE k",
    ] {
        println!("{call}");
        run(&mut c, call).refused("MISCONF");
    }
    // What only looks is answered.
    assert_eq!(info(&mut c).token, before.token);
    assert_eq!(queue(&mut c), ["b"]);

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
    let (server, mut c) = Server::builder()
        .config("save", "3600 1")
        .config("stop-writes-on-bgsave-error", "no")
        .held();
    let [mut first] = wait_as(&server, ["b"]);
    server.fail_to_save();
    run(&mut c, "LOCK.RENEW k a").grant();
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    first.granted();
}

#[test]
fn a_full_memory_stops_no_hand_off() {
    let (copies, mut c) = Copies::held();
    let mut waiters = wait_as(&copies, ["b", "c", "d"]);
    run(&mut c, "CONFIG SET maxmemory-policy noeviction maxmemory 1").okay();
    run(&mut c, "LOCK.ACQUIRE other x").refused("OOM");
    let ways = [("LOCK.RELEASE k a", 0), ("PEXPIRE k 30", 1), ("DEL k", 1)];
    for (waiter, (way, reply)) in waiters.iter_mut().zip(ways) {
        assert_eq!(run(&mut c, way).int(), reply);
        waiter.granted();
    }
    assert_eq!(owner(&mut c), "d");
    run(&mut c, "CONFIG SET maxmemory 0").okay();
    copies.agree();
}

/// Two wait, and a newcomer calls in the pause: all continues in order afterwards.
#[test]
fn a_lease_that_ends_in_a_pause_is_handed_over_afterwards() {
    for (mode, block) in [("WRITE", ""), ("ALL", ""), ("WRITE", " BLOCK 20")] {
        println!("{mode}{block}");
        let (copies, mut c) = Copies::held();
        let [mut first, mut second] = wait_as(&copies, ["b", "c"]);
        let end = unix_ms() + 400;
        // The lease is not to end before the pause.
        let pause = format!("CLIENT PAUSE 400 {mode}");
        transaction(&mut c, &["LOCK.RENEW k a PX 40", &pause]);
        let mut newcomer = copies.connection();
        newcomer.post(&line(&format!("LOCK.ACQUIRE k newcomer PX 600000{block}")));
        let token = first.granted().token;
        assert!(token >= end * 1000, "granted in the pause, {end}: {token}");
        newcomer.receive().nil();
        eventually(|| queue(&mut c) == ["c"], "one to wait");
        assert_eq!(owner(&mut c), "b");
        run(&mut c, "LOCK.RELEASE k b").int();
        second.granted();
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
