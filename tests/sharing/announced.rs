//! Every change signals the key as modified and raises a keyspace event.

use redis::{Connection, Value};
use testbed::{Expect, Server, Subscriber, at_once, run, started};

/// One after the other: a call and the events that it raises.
const CALLS: [(&str, &[&str]); 14] = [
    ("LOCK.ACQUIRE k a SHARED PX 600000", &["lock.acquire"]),
    ("LOCK.ACQUIRE k b LIMIT 5 PX 500000", &["lock.acquire"]),
    ("LOCK.ACQUIRE k b LIMIT 5", &["lock.acquire"]),
    (
        "LOCK.ACQUIRE k b LIMIT 3 HOLDS 2 PX 600000",
        &["lock.acquire"],
    ),
    ("LOCK.ACQUIRE k d", &[]),
    ("LOCK.ACQUIRE k a", &[]),
    ("LOCK.RENEW k a PX 400000", &["lock.renew"]),
    ("LOCK.RENEW k a LIMIT 2 PX 300000", &["lock.renew"]),
    ("LOCK.RELEASE k b", &["lock.release"]),
    ("LOCK.RELEASE k b HOLDS 4", &[]),
    ("LOCK.RELEASE k b", &["lock.release"]),
    ("LOCK.RENEW k a SHARED PX 600000", &["lock.renew"]),
    ("LOCK.RENEW k x", &[]),
    ("LOCK.RELEASE k a", &["lock.release", "del"]),
];

/// The kinds of the events of `k` so far.
#[track_caller]
pub(crate) fn kinds(subscriber: &mut Subscriber, c: &mut Connection) -> Vec<String> {
    let kind = |event: String| {
        let words: Vec<_> = event.split(' ').collect();
        assert_eq!((words[0], words[2]), ("0", "k"), "{event}");
        words[1].to_owned()
    };
    subscriber.so_far(c).into_iter().map(kind).collect()
}

#[test]
fn each_change_raises_its_event_and_wakes_watch_and_nothing_else_does() {
    let (server, mut c) = started();
    let mut subscriber = Subscriber::to(&server, "EA");
    for (call, events) in CALLS {
        let mut watches = server.connection();
        run(&mut watches, "WATCH k").okay();
        let _ = run(&mut c, call);
        assert_eq!(kinds(&mut subscriber, &mut c), events, "{call}");
        let exec = at_once(&mut watches, &["MULTI", "PING", "EXEC"]).remove(2);
        assert_eq!(exec.value() == Value::Nil, !events.is_empty(), "{call}");
    }
}

#[test]
fn the_same_events_come_on_a_replica() {
    let server = Server::start();
    let replica = server.replica();
    let mut c = server.connection();
    let mut subscriber = Subscriber::to(&replica, "EA");
    for (call, events) in CALLS {
        let _ = run(&mut c, call);
        // A replica tells an acquire that adds no hold as a renewal.
        let events = if call.contains("HOLDS 2") {
            &["lock.renew"]
        } else {
            events
        };
        server.wait_for_sync(&replica);
        let told = kinds(&mut subscriber, &mut replica.connection());
        assert_eq!(told, events, "{call}");
    }
}
