//! Locks under those who wait: renamed, moved, overwritten, flushed, swapped or loaded anew.

use testbed::{
    Copies, Expect, Talk, at_once, cmd, eventually, held, held_and_waited_for, info, nobody_waits,
    owner, queue, run, started, transaction, wait, wait_as, wait_on,
};

#[test]
fn waiters_stay_with_their_name_when_the_lock_is_renamed() {
    let (copies, mut c) = Copies::started();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, second] = wait_as(&copies, ["b", "c"]);
    run(&mut c, "RENAME k elsewhere").okay();
    first.granted();
    let moved = run(&mut c, "LOCK.INFO elsewhere").lock_info();
    let found = (&moved.owner[..], moved.token, moved.waiters);
    assert_eq!(found, (&b"a"[..], grant.token, 0));
    assert_eq!(queue(&mut c), ["c"]);
    assert!(second.is_blocked(&mut c));
    copies.agree();
}

#[test]
fn a_lock_renamed_onto_another_is_waited_for_in_its_place() {
    let (copies, mut c) = Copies::held();
    let came = run(&mut c, "LOCK.ACQUIRE other x PX 600000").grant();
    let [mut first, mut of_x] = wait_as(&copies, ["b", "x"]);
    let mut of_other = wait(&copies, "other d PX 600000 BLOCK 0");
    run(&mut c, "RENAME other k").okay();
    assert_eq!(of_other.granted().owner, b"d");
    let again = of_x.granted();
    assert_eq!((again.token, again.holds), (came.token, 2));
    held_and_waited_for(&mut c, &["x"], &["b"]);
    assert!(testbed::waiters(&mut c, "other").is_empty());
    copies.replica_agrees();
    assert_eq!(run(&mut c, "LOCK.RELEASE k x ALL").int(), 0);
    assert!(first.granted().token > came.token);
    copies.agree();
}

#[test]
fn another_value_renamed_onto_a_lock_turns_its_waiters_away() {
    let (copies, mut c) = Copies::held();
    run(&mut c, "SET text value").okay();
    let waiters = wait_as(&copies, ["b", "c"]);
    run(&mut c, "RENAME text k").okay();
    for mut waiter in waiters {
        waiter.receive().refused("WRONGTYPE");
    }
    copies.agree();
}

/// The key was never absent in between, as far as a command can tell, but the lock is free.
#[test]
fn a_lock_renamed_away_and_back_in_one_write_keeps_its_waiters() {
    let (copies, mut c) = Copies::started();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [first] = wait_as(&copies, ["b"]);
    transaction(&mut c, &["RENAME k x", "RENAME x k"]);
    run(&mut c, "PING").value();
    assert_eq!(info(&mut c).token, grant.token);
    assert!(first.is_blocked(&mut c));
    copies.agree();
}

#[test]
fn a_lock_moved_to_where_somebody_waits_is_waited_for_there() {
    let (copies, mut c) = Copies::started();
    let mut seven = copies.connection_in(7);
    run(&mut seven, "LOCK.ACQUIRE k z PX 600000").grant();
    let waiting = copies.connection_in(7);
    let mut waiter = wait_on(&copies, waiting, "k b PX 600000 BLOCK 0");
    let came = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    // In one write: a move onto a key is refused, and a free lock would be the waiter's.
    let replies = transaction(&mut c, &["SELECT 7", "DEL k", "SELECT 0", "MOVE k 7"]);
    assert_eq!(replies[3].clone().int(), 1);
    eventually(|| owner(&mut seven) == "a", "the moved lock");
    assert_eq!(info(&mut seven).token, came.token);
    assert!(waiter.is_blocked(&mut c));
    assert_eq!(run(&mut seven, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(waiter.granted().owner, b"b");
    copies.agree();
}

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

#[test]
fn a_flush_of_another_database_frees_nothing() {
    let (server, mut c) = held();
    let [first] = wait_as(&server, ["b"]);
    let mut other = server.connection_in(3);
    run(&mut other, "FLUSHDB").okay();
    assert_eq!(owner(&mut c), "a");
    assert!(first.is_blocked(&mut c));
}

/// As for `BLPOP`: a waiter stays with its database's number.
#[test]
fn a_swap_brings_the_locks_of_the_other_database_before_the_waiters() {
    let (copies, mut c) = Copies::started();
    let mut nine = copies.connection_in(9);
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut nine, "LOCK.ACQUIRE k z PX 600000").grant();
    run(&mut nine, "LOCK.ACQUIRE j z PX 600000").grant();
    let [first, mut of_z] = wait_as(&copies, ["b", "z"]);
    let in_nine = copies.connection_in(9);
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
