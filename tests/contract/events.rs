//! Keyspace events: exactly those that a call raises, in their order, and none for a refusal.

use crate::support::{now_ms, now_us, run};
use testbed::{Expect, Subscriber, eventually, started, transaction};

#[test]
fn each_change_raises_its_events() {
    let (server, mut c) = started();
    let mut events = Subscriber::to(&server, "EA");
    let token = now_us() + 1_000_000;
    let apply = format!("LOCK._APPLY k a {token} 2 60000 -1");
    let raise = format!("LOCK.RENEW k a TOKEN {token} RAISE {}", token + 9);
    for (line, expected) in [
        ("LOCK.ACQUIRE k a PX 60000", &["0 lock.acquire k"][..]),
        ("LOCK.ACQUIRE k a", &["0 lock.acquire k"]),
        ("LOCK.ACQUIRE k a HOLDS 3", &["0 lock.acquire k"]),
        ("LOCK.ACQUIRE k a HOLDS 1 PX 70000", &["0 lock.acquire k"]),
        ("LOCK.RENEW k a PX 50000", &["0 lock.renew k"]),
        ("LOCK.RELEASE k a", &["0 lock.release k"]),
        ("LOCK.RELEASE k a HOLDS 1", &["0 lock.release k"]),
        ("LOCK.RELEASE k a", &["0 lock.release k", "0 del k"]),
        ("LOCK.ACQUIRE k *", &["0 lock.acquire k"]),
        ("DEL k", &["0 del k"]),
        (&apply, &["0 lock.acquire k"]),
        (&raise, &["0 lock.renew k"]),
        ("PEXPIRE k 60000", &["0 expire k"]),
        ("PERSIST k", &["0 persist k"]),
        ("RENAME k l", &["0 rename_from k", "0 rename_to l"]),
        ("LOCK.RELEASE l a ALL", &["0 lock.release l", "0 del l"]),
    ] {
        assert_eq!(events.of(&mut c, line), expected, "{line}");
    }
}

/// As of PEXPIRE: also where the end stays the same, because both come in one millisecond.
#[test]
fn each_renewal_raises_its_event() {
    let (server, mut c) = started();
    let mut events = Subscriber::to(&server, "EA");
    let calls = ["LOCK.ACQUIRE k a", "LOCK.RENEW k a", "LOCK.RENEW k a"];
    transaction(&mut c, &calls);
    let expected = ["acquire", "renew", "renew"].map(|kind| format!("0 lock.{kind} k"));
    assert_eq!(events.so_far(&mut c), expected);
}

#[test]
fn the_event_is_of_the_database_of_the_lock() {
    let (server, mut c) = started();
    let mut events = Subscriber::to(&server, "EA");
    run(&mut c, "SELECT 5").okay();
    assert_eq!(events.of(&mut c, "LOCK.ACQUIRE k a"), ["5 lock.acquire k"]);
    let released = events.of(&mut c, "LOCK.RELEASE k a");
    assert_eq!(released, ["5 lock.release k", "5 del k"]);
}

#[test]
fn a_lease_that_ends_raises_expired() {
    let (server, mut c) = started();
    let mut events = Subscriber::to(&server, "EA");
    run(&mut c, "LOCK.ACQUIRE k a PX 1").grant();
    assert_eq!(events.next_event().as_deref(), Some("0 lock.acquire k"));
    assert_eq!(events.next_event().as_deref(), Some("0 expired k"));
}

#[test]
fn a_grant_in_the_place_of_one_that_has_ended_comes_after_its_expired() {
    let (server, mut c) = started();
    run(&mut c, "DEBUG SET-ACTIVE-EXPIRE 0").okay();
    run(&mut c, "LOCK.ACQUIRE k a PX 1").grant();
    let over = now_ms() + 1;
    eventually(|| now_ms() > over, "the lease to end");
    let mut events = Subscriber::to(&server, "EA");
    let expected = ["0 expired k", "0 lock.acquire k"];
    assert_eq!(events.of(&mut c, "LOCK.ACQUIRE k b PX 60000"), expected);
}

#[test]
fn lock_events_are_of_the_module_class() {
    let (server, mut c) = started();
    let mut module_class = Subscriber::to(&server, "Ed");
    for (line, expected) in [
        ("LOCK.ACQUIRE k a", "0 lock.acquire k"),
        ("LOCK.RENEW k a PX 9000", "0 lock.renew k"),
        ("LOCK.RELEASE k a", "0 lock.release k"),
    ] {
        assert_eq!(module_class.of(&mut c, line), [expected]);
    }
    let mut generic_class = Subscriber::to(&server, "Eg");
    assert!(generic_class.of(&mut c, "LOCK.ACQUIRE k a").is_empty());
    assert_eq!(generic_class.of(&mut c, "LOCK.RELEASE k a"), ["0 del k"]);
}

#[test]
fn a_transaction_raises_its_events_in_the_order_of_its_commands() {
    let (server, mut c) = started();
    let mut events = Subscriber::to(&server, "EA");
    let lines = ["LOCK.ACQUIRE k a", "LOCK.RELEASE k a", "LOCK.ACQUIRE k b"];
    transaction(&mut c, &lines);
    let (acquired, released) = ("0 lock.acquire k", "0 lock.release k");
    let expected = [acquired, released, "0 del k", acquired];
    assert_eq!(events.so_far(&mut c), expected);
}
