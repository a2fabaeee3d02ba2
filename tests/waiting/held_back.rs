//! States of the server in which a new acquire would be refused.

use redis::{Connection, Value};
use testbed::{
    Copies, Expect, Server, cmd, eventually, held, held_and_waited_for, info, owner, queue, run,
    transaction, wait, wait_as,
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
