//! Values that are written over a lock that somebody waits for.

use testbed::{
    Copies, Expect, Talk, at_once, cmd, held_and_waited_for, nobody_waits, run, transaction,
    wait_as,
};

/// Everybody who waits for `k` is answered an error that tells why.
#[test]
fn another_type_turns_the_waiters_away() {
    for lines in [&["SET k value"][..], &["DEL k", "LPUSH k value"]] {
        let (copies, mut c) = Copies::held();
        let waiters = wait_as(&copies, ["b", "c", "a2"]);
        for reply in at_once(&mut c, lines) {
            reply.value();
        }
        for mut waiter in waiters {
            waiter.receive().refused("WRONGTYPE");
            // Its connection continues.
            run(&mut waiter, "PING").value();
        }
        run(&mut c, "LOCK.WAITERS k").refused("WRONGTYPE");
        run(&mut c, "LOCK.ACQUIRE k b BLOCK 0").refused("WRONGTYPE");
        run(&mut c, "DEL k").int();
        nobody_waits(&copies);
        copies.agree();
    }
}

#[test]
fn a_lock_restored_over_another_is_waited_for_in_its_place() {
    let (copies, mut c) = Copies::started();
    run(&mut c, "LOCK.ACQUIRE other x PX 600000").grant();
    let dump = run(&mut c, "DUMP other").bytes();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, mut of_x] = wait_as(&copies, ["b", "x"]);
    cmd!(c, "RESTORE", "k", 500_000, dump, "REPLACE").okay();
    let again = of_x.granted();
    assert_eq!(again.holds, 2, "its owner holds the lock that came");
    held_and_waited_for(&mut c, &["x"], &["b"]);
    assert!(first.is_blocked(&mut c));
    copies.replica_agrees();
    run(&mut c, "DEL k").int();
    assert!(first.granted().token > again.token);
    copies.agree();
}

#[test]
fn a_lock_that_was_overwritten_for_a_moment_keeps_its_place_in_line() {
    let (copies, mut c) = Copies::held();
    let [mut first] = wait_as(&copies, ["b"]);
    transaction(&mut c, &["SET k text", "DEL k"]);
    first.granted();
    copies.agree();
}
