//! Values that are written over a lock that somebody waits for.

use crate::copies::Copies;
use crate::support::{at_once, nobody_waits, owner, queue, run, wait_as};
use redis::Connection;
use testbed::{Expect, Talk, cmd};

/// Demands that this turns away everybody who waits for `k`, with an error that tells why.
#[track_caller]
fn turns_away(so: impl FnOnce(&mut Connection)) {
    let (copies, mut c) = Copies::held();
    let waiters = wait_as(&copies, ["b", "c", "a2"]);
    so(&mut c);
    for mut waiter in waiters {
        waiter.receive().refused("WRONGTYPE");
        // Its connection continues.
        run(&mut waiter, "PING").value();
    }
    nobody_waits_for_other_types(&mut c);
    run(&mut c, "DEL k").int();
    nobody_waits(&copies);
    copies.agree();
}

#[track_caller]
fn nobody_waits_for_other_types(c: &mut Connection) {
    run(c, "LOCK.WAITERS k").refused("WRONGTYPE");
    run(c, "LOCK.ACQUIRE k b BLOCK 0").refused("WRONGTYPE");
}

#[test]
fn set_over_a_lock_turns_its_waiters_away() {
    turns_away(|c| run(c, "SET k value").okay());
}

#[test]
fn another_type_after_a_deletion_turns_its_waiters_away() {
    turns_away(|c| {
        for reply in at_once(c, &["DEL k", "LPUSH k value"]) {
            reply.int();
        }
    });
}

#[test]
fn a_lock_restored_over_another_is_waited_for_in_its_place() {
    let copies = Copies::start();
    let mut c = copies.connection();
    run(&mut c, "LOCK.ACQUIRE other x PX 600000").grant();
    let dump = run(&mut c, "DUMP other").bytes();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, mut of_x] = wait_as(&copies, ["b", "x"]);
    cmd!(c, "RESTORE", "k", 500_000, dump, "REPLACE").okay();
    let again = of_x.granted();
    assert_eq!(again.holds, 2, "its owner holds the lock that came");
    assert_eq!(
        (owner(&mut c), queue(&mut c)),
        ("x".into(), vec!["b".into()])
    );
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
    at_once(&mut c, &["MULTI", "SET k text", "DEL k", "EXEC"])
        .remove(3)
        .value();
    first.granted();
    copies.agree();
}
