//! Databases that are flushed, swapped or loaded anew under those who wait.

use testbed::{
    Copies, Expect, eventually, held, held_and_waited_for, info, owner, run, started, wait_as,
    wait_on,
};

#[test]
fn a_flush_of_another_database_frees_nothing() {
    let (server, mut c) = held();
    let [first] = wait_as(&server, ["b"]);
    let mut other = server.connection();
    run(&mut other, "SELECT 3").okay();
    run(&mut other, "FLUSHDB").okay();
    assert_eq!(owner(&mut c), "a");
    assert!(first.is_blocked(&mut c));
}

/// As for `BLPOP`: a waiter stays with its database's number.
#[test]
fn a_swap_brings_the_locks_of_the_other_database_before_the_waiters() {
    let (copies, mut c) = Copies::started();
    let mut nine = copies.connection();
    run(&mut nine, "SELECT 9").okay();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut nine, "LOCK.ACQUIRE k z PX 600000").grant();
    run(&mut nine, "LOCK.ACQUIRE j z PX 600000").grant();
    let [first, mut of_z] = wait_as(&copies, ["b", "z"]);
    let mut in_nine = copies.connection();
    run(&mut in_nine, "SELECT 9").okay();
    let mut in_nine = wait_on(&copies, in_nine, "j b PX 600000 BLOCK 0");

    run(&mut c, "SWAPDB 0 9").okay();
    // Its owner holds the lock that came: a re-entry.
    assert_eq!(of_z.granted().holds, 2);
    // Nobody holds `j` in the database that came to be number nine.
    assert_eq!(in_nine.granted().owner, b"b");
    held_and_waited_for(&mut c, &["z"], &["b"]);
    assert_eq!(owner(&mut nine), "a");
    assert!(first.is_blocked(&mut c));
    copies.agree();
}

#[test]
fn a_reload_keeps_waiters_and_lock() {
    let (copies, mut c) = Copies::started();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, second] = wait_as(&copies, ["b", "c"]);
    run(&mut c, "DEBUG RELOAD").okay();
    let held = info(&mut c);
    assert_eq!((held.token, held.waiters), (grant.token, 2));
    assert!(first.is_blocked(&mut c) && second.is_blocked(&mut c));
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    first.granted();
    copies.agree();
}

#[test]
fn a_reload_of_a_file_without_the_lock_frees() {
    let (copies, mut c) = Copies::started();
    run(&mut c, "SAVE").okay();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, second] = wait_as(&copies, ["b", "c"]);
    run(&mut c, "DEBUG RELOAD NOSAVE").okay();
    assert!(first.granted().token > grant.token);
    assert!(second.is_blocked(&mut c));
    copies.agree();
}

/// What was loaded is as it was told to copies, so these are left out: nobody told them.
#[test]
fn a_reload_of_a_lease_that_has_ended_frees() {
    let (server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 1500").grant();
    run(&mut c, "SAVE").okay();
    run(&mut c, "LOCK.RENEW k a PX 600000").grant();
    let end = testbed::state::unix_ms() + 1500;
    let [mut first] = wait_as(&server, ["b"]);
    eventually(|| testbed::state::unix_ms() > end, "the saved lease's end");
    run(&mut c, "DEBUG RELOAD NOSAVE").okay();
    first.granted();
    assert_eq!(owner(&mut c), "b");
}
