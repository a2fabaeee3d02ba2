//! What a subscriber and a tracking client hear of a lock that changes hands without a command of
//! its next owner.

use redis::{Connection, PushKind, Value};
use testbed::{Expect, Subscriber, Talk, cmd, held, run, started, wait};

#[test]
fn a_hand_off_is_heard_as_the_end_of_one_grant_and_the_start_of_another() {
    for (end, expected) in [
        ("LOCK.RELEASE k a", &["lock.release k"][..]),
        ("DEL k", &["del k"]),
        ("PEXPIRE k 10", &["expire k", "expired k"]),
    ] {
        let (server, mut c) = held();
        let mut waiter = wait(&server, "k b PX 600000 BLOCK 0");
        let mut events = Subscriber::to(&server, "EA");
        run(&mut c, end).int();
        waiter.receive().grant();
        for event in expected.iter().chain(&["lock.acquire k"]) {
            let told = events.next_event().expect("an event");
            assert_eq!(told, format!("0 {event}"), "{end}");
        }
    }
}

/// The keys of the next invalidation that this client is pushed.
fn pushed(c: &mut Connection) -> Vec<String> {
    match c.recv_response().expect("a push") {
        Value::Push {
            kind: PushKind::Invalidate,
            data,
        } => {
            let keys = data.into_iter().next().expect("keys");
            keys.items().into_iter().map(Expect::text).collect()
        }
        other => panic!("an invalidation expected, not {other:?}"),
    }
}

#[test]
fn a_client_that_tracks_the_lock_is_pushed_its_loss() {
    for end in ["DEL k", "LOCK.RELEASE k a", "its lease"] {
        let (server, mut c) = started();
        let mut owner = server.connection_resp3();
        cmd!(owner, "CLIENT", "TRACKING", "ON").okay();
        let lease_ms = if end == "its lease" { 500 } else { 600_000 };
        cmd!(owner, "LOCK.ACQUIRE", "k", "a", "PX", lease_ms).grant();
        let mut waiter = wait(&server, "k b PX 600000 BLOCK 0");
        run(&mut owner, "LOCK.INFO k").lock_info();
        if end != "its lease" {
            run(&mut c, end).int();
        }
        assert_eq!(pushed(&mut owner), ["k"], "{end}");
        waiter.receive().grant();
        assert_eq!(run(&mut owner, "LOCK.INFO k").lock_info().owner, b"b");
    }
}
