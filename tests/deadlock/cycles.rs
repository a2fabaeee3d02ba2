//! Cycles of locks that each have one holder.

use crate::support::Stage;
use testbed::{Expect, Talk, at_once, cmd, line, transaction};

/// The owner of a number, and its lock.
fn names(number: usize) -> (String, String) {
    (format!("owner{number}"), format!("lock{number}"))
}

#[test]
fn who_closes_a_cycle_of_two_to_eight_is_told_and_all_others_wait() {
    for owners in 2..=8 {
        let mut stage = Stage::new();
        for number in 0..owners {
            let (owner, lock) = names(number);
            stage.hold([&format!("{lock} {owner}")]);
        }
        let call = |number: usize| {
            let (owner, lock) = (names(number).0, names((number + 1) % owners).1);
            format!("{lock} {owner}")
        };
        // The cycle is closed at another place each time.
        let caller = owners / 2;
        for number in (0..owners).filter(|number| *number != caller) {
            stage.wait([&call(number)]);
        }
        stage.told(&call(caller), owners);
        stage.told(&call(caller), owners);
        stage.all_wait();
        assert_eq!(stage.count(), 2);
        // It lets go of what it holds, and all others come to their turn, the last one first.
        let (owner, lock) = names(caller);
        assert_eq!(stage.run(&format!("LOCK.RELEASE {lock} {owner}")).int(), 0);
        for number in (1..owners).map(|back| (caller + owners - back) % owners) {
            let granted = stage.granted(&call(number));
            let (owner, lock) = names(number);
            assert_eq!(granted.owner, owner.as_bytes());
            assert_eq!(stage.run(&format!("LOCK.RELEASE {lock} {owner}")).int(), 0);
        }
        stage.all_wait();
    }
}

#[test]
fn nothing_is_told_or_touched_by_an_answer() {
    let mut stage = Stage::new();
    stage.run("CONFIG SET notify-keyspace-events KEA").value();
    stage.hold(["k a", "j b"]);
    stage.wait(["k b"]);
    let mut listener = stage.server.connection();
    cmd!(listener, "PSUBSCRIBE", "*").items();
    let mut watcher = stage.server.connection();
    cmd!(watcher, "WATCH", "k", "j").okay();
    stage.told("j a", 2);
    assert_eq!(transaction(&mut watcher, &["PING"]).len(), 1);
    // The next event that comes is of another key.
    stage.run("SET other 1").okay();
    let event = listener.receive().items();
    assert!(event[2].clone().text().ends_with("__:other"), "{event:?}");
}

#[test]
fn a_time_out_a_kill_or_a_call_off_opens_the_way() {
    let mut stage = Stage::new();
    stage.hold(["k a", "j b"]);
    // Time-outs are not looked at while they run.
    let mut short = stage.server.connection();
    short.post(&line("LOCK.ACQUIRE k b BLOCK 1500"));
    testbed::eventually(|| testbed::waiters(&mut stage.c, "k") == ["b"], "b to wait");
    stage.told("j a", 2);
    short.receive().nil();
    stage.wait(["j a"]);
    drop(stage.waiter("j a"));

    stage.wait(["k b"]);
    stage.told("j a", 2);
    assert_eq!(stage.run("LOCK.RELEASE k b ALL").int(), 0);
    stage.waiter("k b").receive().nil();
    stage.wait(["j a"]);
    drop(stage.waiter("j a"));

    stage.wait(["k b"]);
    let id = stage.waiter_id("k b");
    // In the same tick it is gone already.
    let (asks, kill) = ("LOCK.ACQUIRE j a BLOCK 5", format!("CLIENT KILL ID {id}"));
    let replies = at_once(&mut stage.c, &[asks, &kill, asks]);
    let [told, killed, waited] = <[_; 3]>::try_from(replies).unwrap();
    told.refused("DEADLOCK");
    assert_eq!(killed.int(), 1);
    waited.nil();
}
