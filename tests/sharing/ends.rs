//! Every change signals the key as modified and raises a keyspace event, and the end of a lease frees its share at that
//! moment.

use crate::holders::{enter, shared};
use redis::{Connection, Value};
use testbed::{
    Expect, Subscriber, Talk, at_once, cmd, eventually, info, owners, post, run, started,
    transaction,
};

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
    let (server, mut c) = started();
    let replica = server.replica();
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

/// Lets the lease of `b` end, with nobody in line.
#[track_caller]
fn ended(c: &mut Connection) {
    let mut holds = || owners(c).contains(&"b".to_owned());
    eventually(|| !holds(), "the lease of b to end");
}

#[test]
fn whatever_is_asked_is_answered_without_it() {
    let (server, mut c, [a]) = shared(["a"], "LIMIT 2");
    let replica = server.replica();
    let b = run(&mut c, "LOCK.ACQUIRE k b LIMIT 2 PX 100").grant();
    ended(&mut c);
    let end = run(&mut c, "PEXPIRETIME k").int();
    assert_eq!((info(&mut c).holders, info(&mut c).token), (1, a.token));
    cmd!(c, "LOCK.FENCE", "k", b.token).refused("FENCED");
    for line in [
        "LOCK.RENEW k b",
        "LOCK.RELEASE k b",
        "LOCK.RELEASE k b ALL",
        "LOCK.ACQUIRE k b LIMIT 2 HOLDS 2",
    ] {
        run(&mut c, line).refused("NOTOWNER");
    }
    assert_eq!(run(&mut c, "PEXPIRETIME k").int(), end);
    // A new grant is no re-entry, and there is room for it.
    let again = enter(&mut c, "b LIMIT 2");
    assert!(again.token > b.token && again.holds == 1);
    server.wait_for_sync(&replica);
}

/// Samples the holders and the time of the server together, on both sides of the end.
#[track_caller]
fn is_held_exactly_until(c: &mut Connection, end: i64) {
    let (mut last_held, mut first_free) = (0, i64::MAX);
    while first_free == i64::MAX {
        let exec = transaction(c, &["TIME", "LOCK.HOLDERS k", "TIME"]);
        let time = |value: &Value| {
            let time = value.clone().items();
            let part = |at: usize| -> i64 { time[at].clone().text().parse().expect("a number") };
            part(0) * 1000 + part(1) / 1000
        };
        if exec[1].clone().items().len() == 2 {
            last_held = time(&exec[0]);
        } else {
            first_free = time(&exec[2]);
        }
    }
    // A server may keep the time of the transaction's start; by a millisecond it may be rounded.
    let exactly = last_held <= end + 2 && first_free >= end - 1;
    assert!(exactly, "{last_held}, {first_free}, end {end}");
}

/// Gives `b` a share of `k`; when that ends. The server tells only the latest end of a lock's shares: locks of
/// one holder that are taken before and after have the same end as it.
#[track_caller]
fn share_of_b(c: &mut Connection) -> i64 {
    loop {
        let lines = [
            "LOCK.ACQUIRE before b PX 400",
            "LOCK.ACQUIRE k b SHARED PX 400",
            "LOCK.ACQUIRE after b PX 400",
            "PEXPIRETIME before",
            "PEXPIRETIME after",
        ];
        let ends = transaction(c, &lines).split_off(3);
        let [before, after] = [0, 1].map(|n: usize| ends[n].clone().int());
        if before == after {
            return after;
        }
        run(c, "LOCK.RELEASE k b ALL").int();
        run(c, "DEL before after").int();
    }
}

#[test]
fn at_its_end_exactly_on_a_primary_and_on_a_replica() {
    let (server, mut c, _) = shared(["a"], "SHARED");
    let replica = server.replica();
    for mut looks in [server.connection(), replica.connection()] {
        let end = share_of_b(&mut c);
        server.wait_for_sync(&replica);
        is_held_exactly_until(&mut looks, end);
        assert_eq!(owners(&mut replica.connection()), ["a"]);
        assert_eq!(info(&mut replica.connection()).holders, 1);
    }
}

#[test]
fn the_event_comes_with_the_next_change_and_the_servers_own_with_the_last_end() {
    let (server, mut c) = started();
    let mut subscriber = Subscriber::to(&server, "EA");
    enter(&mut c, "a SHARED");
    run(&mut c, "LOCK.ACQUIRE k b SHARED PX 30").grant();
    kinds(&mut subscriber, &mut c);
    ended(&mut c);
    for look in [
        "LOCK.INFO",
        "LOCK.HOLDERS",
        "LOCK.FENCE",
        "LOCK.WAITERS",
        "PTTL",
    ] {
        cmd!(c, look, "k").value();
    }
    // Nobody has changed it.
    assert_eq!(kinds(&mut subscriber, &mut c), [""; 0]);
    run(&mut c, "LOCK.RENEW k a PX 600001").grant();
    let expected = ["lock.expire", "lock.renew"];
    assert_eq!(kinds(&mut subscriber, &mut c), expected);
    run(&mut c, "LOCK.ACQUIRE k b SHARED PX 30").grant();
    ended(&mut c);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    let expected = ["lock.acquire", "lock.expire", "lock.release", "del"];
    assert_eq!(kinds(&mut subscriber, &mut c), expected);
    // The last lease ends with the key.
    let lines = [
        "LOCK.ACQUIRE k a SHARED PX 100",
        "LOCK.ACQUIRE k b SHARED PX 200",
    ];
    transaction(&mut c, &lines);
    eventually(|| run(&mut c, "EXISTS k").int() == 0, "the key to go");
    let expected = ["lock.acquire", "lock.acquire", "expired"];
    assert_eq!(kinds(&mut subscriber, &mut c), expected);
    run(&mut c, "LOCK.INFO k").nil();
}

#[test]
fn watch_and_caches_hear_of_it_when_the_share_is_taken_out() {
    let (server, mut c, _) = shared(["a"], "SHARED");
    let (mut caches, mut told) = (server.connection(), server.connection());
    let id = cmd!(told, "CLIENT", "ID").int();
    post!(told, "SUBSCRIBE", "__redis__:invalidate");
    told.receive().value();
    cmd!(caches, "CLIENT", "TRACKING", "ON", "REDIRECT", id).okay();
    for taken_out in [false, true] {
        run(&mut c, "LOCK.ACQUIRE k b SHARED PX 30").grant();
        let mut watches = server.connection();
        run(&mut watches, "WATCH k").okay();
        ended(&mut c);
        if taken_out {
            run(&mut caches, "LOCK.INFO k").value();
            // It changes nothing of its own.
            run(&mut c, "LOCK.RENEW k x").refused("NOTOWNER");
            let keys = told.receive().items()[2].clone().items();
            assert_eq!(keys[0].clone().text(), "k");
        }
        let exec = at_once(&mut watches, &["MULTI", "PING", "EXEC"]).remove(2);
        assert_eq!(exec.value() == Value::Nil, taken_out);
        run(&mut c, "LOCK.RENEW k a PX 600000").grant();
    }
}

#[test]
fn each_end_is_counted_as_an_expiration() {
    let (server, mut c, _) = shared(["a"], "SHARED");
    for _ in 0..3 {
        run(&mut c, "LOCK.ACQUIRE k b SHARED PX 20").grant();
        ended(&mut c);
    }
    run(&mut c, "LOCK.RENEW k a PX 600001").grant();
    assert_eq!(server.count("expirations"), 3);
    assert_eq!(server.count("forced_removals"), 0);
}
