//! Circles through locks that are shared: who waits for all holders, for one of them, for nobody.

use crate::support::Stage;
use testbed::Expect;

#[test]
fn a_plain_call_waits_for_all_holders() {
    let mut stage = Stage::new();
    stage.hold(["k a SHARED", "k b SHARED", "k c LIMIT 5", "j w"]);
    stage.wait(["j b"]);
    stage.told("k w", 2);
    stage.told("k w LIMIT 1", 2);
    // On the way too.
    stage.run("LOCK.RELEASE k b").int();
    stage.wait(["k w"]);
    stage.told("j a", 2);
    stage.told("j c", 2);
}

#[test]
fn a_shared_call_behind_a_plain_one_of_another_owner_waits_for_all_holders() {
    let mut stage = Stage::new();
    stage.hold(["k a SHARED", "k b SHARED", "j w"]);
    stage.wait(["j b"]);
    // With room for it.
    stage.hold(["k w SHARED"]);
    stage.run("LOCK.RELEASE k w").int();
    stage.wait(["k x"]);
    stage.told("k w SHARED", 2);
    stage.told("k w LIMIT 7", 2);
    // On the way too.
    stage.run("LOCK.RELEASE k b").int();
    stage.wait(["k w SHARED"]);
    stage.told("j a", 2);
}

#[test]
fn a_shared_call_waits_for_who_has_the_lock_alone() {
    for held in ["k a", "k a LIMIT 1"] {
        let mut stage = Stage::new();
        stage.hold([held, "j w"]);
        stage.wait(["j a"]);
        stage.told("k w SHARED", 2);
        stage.told("k w LIMIT 7", 2);
    }
    let mut stage = Stage::new();
    stage.hold(["k a", "j w"]);
    stage.wait(["k w SHARED"]);
    stage.told("j a SHARED", 2);
}

#[test]
fn who_waits_for_one_of_several_places_waits_for_nobody() {
    let mut stage = Stage::new();
    stage.hold(["k a LIMIT 2", "k b LIMIT 2", "j w"]);
    stage.wait(["j a", "j b"]);
    stage.told("k w", 2);
    stage.wait(["k w LIMIT 2"]);
    // What is not found waits, and a place that comes opens it.
    stage.all_wait();
    assert_eq!(stage.count(), 1);
    stage.run("DEL k").int();
    stage.granted("k w LIMIT 2");

    // On the way too.
    let mut stage = Stage::new();
    stage.hold(["k a LIMIT 2", "k b SHARED", "j w"]);
    stage.wait(["k w SHARED", "j a", "j b"]);
    stage.all_wait();
    assert_eq!(stage.count(), 0);
}

#[test]
fn a_single_holder_with_a_limit_of_several_is_nobody_in_particular() {
    let mut stage = Stage::new();
    stage.run("CONFIG SET lock.max-holders 1").okay();
    stage.hold(["k a SHARED", "j w"]);
    stage.wait(["j a"]);
    stage.told("k w", 2);
    stage.wait(["k w SHARED"]);
    stage.all_wait();
}

#[test]
fn the_limit_in_force_counts() {
    let mut stage = Stage::new();
    stage.hold(["k a SHARED", "j w", "other x"]);
    stage.wait(["j a"]);
    stage.run("LOCK.RENEW k a LIMIT 1").grant();
    stage.told("k w SHARED", 2);
    stage.run("LOCK.RENEW k a LIMIT 2").grant();
    stage.hold(["k y SHARED"]);
    stage.wait(["k w SHARED"]);
}

#[test]
fn two_readers_that_both_want_to_be_alone_are_told_so() {
    let mut stage = Stage::new();
    stage.hold(["k a SHARED", "k b SHARED"]);
    for owner in ["a", "b"] {
        let reply = stage.run(&format!("LOCK.ACQUIRE k {owner} BLOCK 10000"));
        reply.refused("NOTALONE");
    }
    assert_eq!(stage.count(), 0);
}

#[test]
fn circles_of_two_to_eight_readers_and_writers_are_found() {
    for owners in 2..=8 {
        let mut stage = Stage::new();
        let call = |number: usize| format!("lock{} owner{number}", (number + 1) % owners);
        for number in 0..owners {
            // Bystanders hold it too, but for each third lock, which is held alone.
            let lock = format!("lock{number}");
            if number % 3 == 0 {
                stage.hold([&format!("{lock} owner{number}")]);
            } else {
                stage.hold([
                    &format!("{lock} first{number} SHARED"),
                    &format!("{lock} owner{number} SHARED"),
                    &format!("{lock} last{number} LIMIT 9"),
                ]);
            }
        }
        for number in 1..owners {
            // Who waits for a lock that is held alone may be a reader.
            let shared = if (number + 1) % owners % 3 == 0 {
                " SHARED"
            } else {
                ""
            };
            stage.wait([&format!("{}{shared}", call(number))]);
        }
        stage.told(&call(0), owners);
        stage.all_wait();
    }
}
