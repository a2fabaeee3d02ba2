//! Locks that are renamed or moved, from those who wait or to them.

use testbed::{
    Copies, Expect, Talk, eventually, held_and_waited_for, info, owner, queue, run, transaction,
    wait, wait_as, wait_on,
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
    let mut seven = copies.connection();
    run(&mut seven, "SELECT 7").okay();
    run(&mut seven, "LOCK.ACQUIRE k z PX 600000").grant();
    let mut waiting = copies.connection();
    run(&mut waiting, "SELECT 7").okay();
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
