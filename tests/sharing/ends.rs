//! A lease that ends frees that holder's share at that moment.

use crate::holders::{enter, owners, shared};
use crate::support::{at_once, at_one_moment, info, run};
use redis::{Connection, Value};
use testbed::{Expect, Server, Talk, cmd, eventually, post, started};

/// Lets the lease of `b` end, with nobody in line.
#[track_caller]
fn ended(c: &mut Connection) {
    eventually(
        || !owners(c).contains(&"b".to_owned()),
        "the lease of b to end",
    );
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
        let exec = at_once(c, &["MULTI", "TIME", "LOCK.HOLDERS k", "TIME", "EXEC"]).pop();
        let exec = exec.expect("EXEC").items();
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
    assert!(
        last_held <= end + 2,
        "held at {last_held}, though it ended at {end}"
    );
    assert!(
        first_free >= end - 1,
        "free at {first_free}, though it ends at {end}"
    );
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
        let ends = at_one_moment(c, &lines).split_off(3);
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

/// A subscriber to all keyspace events of `k`.
pub(crate) struct Subscriber(Connection);

impl Subscriber {
    pub(crate) fn new(server: &Server) -> Self {
        let mut subscriber = server.connection();
        cmd!(subscriber, "CONFIG", "SET", "notify-keyspace-events", "EA").okay();
        post!(subscriber, "PSUBSCRIBE", "__keyevent@0__:*", "end");
        subscriber.receive().value();
        subscriber.receive().value();
        Self(subscriber)
    }

    /// The events so far.
    pub(crate) fn events(&mut self, c: &mut Connection) -> Vec<String> {
        cmd!(*c, "PUBLISH", "end", "").int();
        std::iter::from_fn(|| {
            let message = self.0.receive().items();
            let channel = message[2].clone().text();
            let event = channel.strip_prefix("__keyevent@0__:")?.to_owned();
            Some(event)
        })
        .collect()
    }
}

#[test]
fn the_event_comes_with_the_next_change_and_the_servers_own_with_the_last_end() {
    let (server, mut c) = started();
    let mut subscriber = Subscriber::new(&server);
    enter(&mut c, "a SHARED");
    run(&mut c, "LOCK.ACQUIRE k b SHARED PX 30").grant();
    subscriber.events(&mut c);
    ended(&mut c);
    for line in [
        "LOCK.INFO k",
        "LOCK.HOLDERS k",
        "LOCK.FENCE k",
        "LOCK.WAITERS k",
        "PTTL k",
    ] {
        run(&mut c, line).value();
    }
    assert_eq!(subscriber.events(&mut c), [""; 0], "nobody has changed it");
    run(&mut c, "LOCK.RENEW k a PX 600001").grant();
    assert_eq!(subscriber.events(&mut c), ["lock.expire", "lock.renew"]);
    run(&mut c, "LOCK.ACQUIRE k b SHARED PX 30").grant();
    ended(&mut c);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    let events = subscriber.events(&mut c);
    assert_eq!(
        events,
        ["lock.acquire", "lock.expire", "lock.release", "del"]
    );
    // The last lease ends with the key.
    let lines = [
        "LOCK.ACQUIRE k a SHARED PX 100",
        "LOCK.ACQUIRE k b SHARED PX 200",
    ];
    at_one_moment(&mut c, &lines);
    eventually(|| run(&mut c, "EXISTS k").int() == 0, "the key to go");
    assert_eq!(
        subscriber.events(&mut c),
        ["lock.acquire", "lock.acquire", "expired"]
    );
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
        let exec = at_once(&mut watches, &["MULTI", "PING", "EXEC"])
            .pop()
            .expect("EXEC");
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
    assert_eq!(server.info_field("lock", "lock_expirations"), "3");
    assert_eq!(server.info_field("lock", "lock_forced_removals"), "0");
}
