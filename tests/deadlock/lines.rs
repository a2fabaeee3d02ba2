//! Owners with several calls: in one line, where the first counts, and for two locks.

use crate::support::Stage;
use testbed::{eventually, waiters};

/// `x` and `y` have the places of `k`, and `b` and `w` hold `l` and `j`.
fn full() -> Stage {
    let mut stage = Stage::new();
    stage.hold(["k x LIMIT 2", "k y LIMIT 2", "l b", "j w"]);
    stage
}

#[test]
fn of_an_owners_calls_in_a_line_the_first_counts() {
    let mut stage = full();
    stage.wait(["k b LIMIT 2", "k b"]);
    stage.wait(["l x"]);
    stage.all_wait();
    assert_eq!(stage.count(), 0);

    let mut stage = full();
    stage.wait(["k b", "k b LIMIT 2"]);
    stage.told("l x", 2);
}

#[test]
fn of_the_callers_calls_too() {
    let mut stage = full();
    stage.wait(["k w LIMIT 2", "j x", "k w"]);
    stage.all_wait();
    assert_eq!(stage.count(), 0);
    // When the first has gone, the next is the first.
    drop(stage.waiter("k w LIMIT 2"));
    eventually(|| waiters(&mut stage.c, "k") == ["w"], "one to wait");
    stage.told("k w", 2);
    stage.told("k w LIMIT 2", 2);
    stage.all_wait();
}

#[test]
fn a_later_call_of_an_owner_stands_in_nobodys_way_by_itself() {
    let mut stage = full();
    stage.wait(["j x", "k t LIMIT 2", "k t", "k w LIMIT 2"]);
    stage.all_wait();
    assert_eq!(stage.count(), 0);

    let mut stage = full();
    stage.wait(["j x", "k t", "k t LIMIT 2"]);
    stage.told("k w LIMIT 2", 2);
}

#[test]
fn no_way_leads_through_an_owner_that_waits_for_two_locks() {
    let mut stage = Stage::new();
    stage.hold(["k a", "j b", "l x"]);
    stage.wait(["k b", "l b", "j a"]);
    stage.all_wait();
    assert_eq!(stage.count(), 0);
    // With one of the waits it is one task again.
    drop(stage.waiter("l b"));
    eventually(|| waiters(&mut stage.c, "l").is_empty(), "b to wait once");
    stage.told("j a", 2);
}

#[test]
fn a_caller_that_waits_for_another_lock_is_not_told() {
    let mut stage = Stage::new();
    stage.hold(["k a", "j b", "l x"]);
    stage.wait(["l a", "k b", "j a"]);
    stage.all_wait();
    assert_eq!(stage.count(), 0);
    drop(stage.waiter("l a"));
    eventually(|| waiters(&mut stage.c, "l").is_empty(), "a to wait once");
    stage.told("j a", 2);
}

#[test]
fn who_waits_for_two_locks_stands_in_others_way() {
    let mut stage = Stage::new();
    stage.hold(["k h SHARED", "l x", "j w"]);
    stage.wait(["k t", "l t", "j h"]);
    stage.told("k w SHARED", 2);
    stage.all_wait();
}

#[test]
fn the_same_lock_in_another_database_is_another_lock() {
    let mut stage = Stage::new();
    stage.hold(["k a", "j b", "1/k x"]);
    stage.wait(["k b", "1/k b", "j a"]);
    stage.all_wait();
    assert_eq!(stage.count(), 0);
}
