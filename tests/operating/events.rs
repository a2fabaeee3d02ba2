//! What a subscriber and a tracking client hear of a lock that changes hands without a command of
//! its next owner.

use crate::support::{run, wait};
use redis::{Connection, PushKind, Value};
use testbed::{Expect, Server, Talk, cmd, held, post, started};

struct Events(Connection);

impl Events {
    fn of(server: &Server) -> Self {
        let mut c = server.connection();
        cmd!(c, "CONFIG", "SET", "notify-keyspace-events", "EA").okay();
        let mut subscriber = server.connection();
        post!(subscriber, "PSUBSCRIBE", "__keyevent@0__:*");
        subscriber.receive().value();
        Self(subscriber)
    }

    fn next(&mut self) -> String {
        let message = self.0.receive().items();
        let [channel, key] = [2, 3].map(|at| message[at].clone().text());
        let (_, event) = channel.split_once("__:").expect("a channel of events");
        format!("{event} {key}")
    }
}

#[test]
fn a_hand_off_is_heard_as_the_end_of_one_grant_and_the_start_of_another() {
    for (end, expected) in [
        ("LOCK.RELEASE k a", &["lock.release k"][..]),
        ("DEL k", &["del k"]),
        ("PEXPIRE k 10", &["expire k", "expired k"]),
    ] {
        let (server, mut c) = held();
        let mut waiter = wait(&server, "k b PX 600000 BLOCK 0");
        let mut events = Events::of(&server);
        run(&mut c, end).int();
        waiter.receive().grant();
        for event in expected.iter().chain(&["lock.acquire k"]) {
            assert_eq!(events.next(), *event, "{end}");
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
