//! A grant that ends otherwise than by its program: the event, its reason, and its order.

use redis::Connection;
use std::thread::sleep;
use std::time::Duration;
use testbed::state::unix_ms;
use testbed::{Expect, Session, Talk, at_once, await_renewals, line, polled, run, started, wait};

/// How another connection takes `k` away, beside a lock `other` and a value `v`, and the reason.
const WAYS: [(&str, &str); 22] = [
    ("DEL k", "deleted"),
    ("UNLINK k", "deleted"),
    ("SET k v", "deleted"),
    ("MSET v 1 k 2", "deleted"),
    ("RENAME k new", "deleted"),
    ("RENAME v k", "deleted"),
    ("RENAME other k", "deleted"),
    ("RENAMENX k new", "deleted"),
    ("MOVE k 1", "deleted"),
    ("SWAPDB 0 1", "deleted"),
    ("SWAPDB 1 0", "deleted"),
    ("FLUSHDB", "flushed"),
    ("FLUSHDB SYNC", "flushed"),
    ("FLUSHDB ASYNC", "flushed"),
    ("FLUSHALL SYNC", "flushed"),
    ("FLUSHALL ASYNC", "flushed"),
    ("SUNIONSTORE k nothing", "deleted"),
    ("BITOP NOT k v", "deleted"),
    ("COPY v k REPLACE", "deleted"),
    ("SORT nothing STORE k", "deleted"),
    ("LOCK.RELEASE k a", "released"),
    ("LOCK.RELEASE k a ALL", "released"),
];

/// What does nothing to `k`, though it looks like it.
const OTHERS: [&str; 11] = [
    "HSET k f v",
    "GETSET k v",
    "SWAPDB 1 2",
    "SWAPDB 0 0",
    "RENAMENX v k",
    "RENAME v new",
    "DEL other new",
    "PEXPIRE k 600000",
    "LOCK.RELEASE k b",
    "RESTORE k 0 x",
    "COPY k new",
];

fn prepare(c: &mut Connection) {
    run(c, "FLUSHALL").okay();
    run(c, "SET v value").okay();
    run(c, "LOCK.ACQUIRE other o PX 600000").grant();
}

#[test]
fn each_way_has_its_reason() {
    let (server, mut c, mut session) = Session::opened();
    for (number, (way, reason)) in (1..).zip(WAYS) {
        prepare(&mut c);
        let token = session.acquire("k a PX 600000").token;
        session.stay(&server);
        let _ = run(&mut c, way).reply();
        let polled = session.polled();
        let lost = format!("{number} lost k a {token} {reason}");
        assert_eq!(polled.events, [lost], "{way}");
        assert_eq!((polled.sure_ms, polled.grants), (-1, 0), "{way}");
    }
    let ways = i64::try_from(WAYS.len()).expect("few");
    assert_eq!(server.count("session_losses"), ways);
}

#[test]
fn what_takes_nothing_away_is_no_event() {
    let (_server, mut c, mut session) = Session::opened();
    prepare(&mut c);
    session.acquire("k a PX 600000");
    for way in OTHERS {
        let _ = run(&mut c, way).reply();
        let polled = session.poll();
        assert_eq!(polled.events, Vec::<String>::new(), "{way}");
        assert_eq!(polled.grants, 1, "{way}");
    }
    run(&mut c, "SELECT 1").okay();
    run(&mut c, "FLUSHDB").okay();
    assert_eq!(session.poll().grants, 1);
}

#[test]
fn a_lease_that_ends_is_told_within_ten_milliseconds() {
    let (server, mut c) = started();
    let mut late = Vec::new();
    for _ in 0..9 {
        let mut session = Session::open(&server);
        session.acquire("k a PX 1000");
        run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
        let end = run(&mut c, "PEXPIRETIME k").int();
        let events = session.events(1);
        late.push(unix_ms() - end);
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].ends_with("expired"), "{events:?}");
        run(&mut c, "CLIENT UNPAUSE").okay();
        run(&mut c, "LOCK.RELEASE k a").reply().ok();
    }
    late.sort_unstable();
    // A busy machine delays some of them.
    assert!(late[0] >= 0 && late[1] <= 10 && late[8] < 500, "{late:?}");
}

/// A share that a `PEXPIRE` of its key cuts short, when a change of the lock has made the cut lasting: the server's own,
/// too.
#[test]
fn the_end_of_a_share_cut_by_hand_is_told_in_time() {
    for way in ["renewal", "close", "end of a lease"] {
        let (server, mut c, mut session) = Session::opened();
        let mut other = Session::open(&server);
        let token = session.acquire("k a SHARED PX 60000").token;
        other.acquire("k b SHARED PX 3000");
        run(&mut c, "LOCK.ACQUIRE k c SHARED PX 200").grant();
        run(&mut c, "PEXPIRE k 2500").int();
        let end = run(&mut c, "PEXPIRETIME k").int();
        match way {
            "renewal" => await_renewals(&server, 1),
            "close" => assert_eq!(other.run("LOCK.SESSION CLOSE ID").int(), 1),
            _ => {
                sleep(Duration::from_millis(300));
                run(&mut c, "LOCK.RELEASE k nobody").refused("NOTOWNER");
            }
        }
        run(&mut c, "LOCK.ACQUIRE k d SHARED PX 60000").grant();
        let events = session.events(1);
        let late = unix_ms() - end;
        assert_eq!(events, [format!("1 lost k a {token} expired")], "{way}");
        assert!((0..5000).contains(&late), "{way}: {late} ms late");
    }
}

/// By a user with the rights of `RESTORE`, who puts other holders in its place. A grant that stays is not lost.
#[test]
fn an_effect_that_a_user_applies_is_told_at_once() {
    let (_server, mut c, mut session) = Session::opened();
    let words = "LOCK.ACQUIRE k a PX 60000 SESSION ID";
    let token = session.run(words).grant().token;
    let stays = format!("LOCK._APPLY k a {token} 2 60000 {}", unix_ms() + 60_000);
    run(&mut c, &stays).okay();
    assert_eq!(session.poll().grants, 1);
    session.post_poll(10_000);
    let takes = format!("LOCK._APPLY k b 7 1 60000 {}", unix_ms() + 60_000);
    run(&mut c, &takes).okay();
    let polled = session.polled();
    assert_eq!(polled.events, [format!("1 lost k a {token} deleted")]);
    assert_eq!((polled.sure_ms, polled.grants), (-1, 0));
}

/// The event comes before the grant to another.
#[test]
fn the_event_is_there_before_the_lock_is_granted_to_another() {
    let (server, mut c) = started();
    for way in ["DEL k", "PEXPIRE k 30", "LOCK.RELEASE k a", "FLUSHALL"] {
        let mut session = Session::open(&server);
        session.acquire("k a PX 600000");
        let mut next = wait(&server, "k b PX 600000 BLOCK 0");
        run(&mut c, way).value();
        next.receive().grant();
        let polled = session.poll();
        assert_eq!(polled.events.len(), 1, "{way}");
        run(&mut c, "DEL k").int();
    }
}

/// The lease ends while the server stands still; a thief comes with the first batch.
#[test]
fn after_a_stall_no_reply_is_silent_about_a_loss() {
    for first in ["poll", "thief"] {
        let (server, mut c, mut session) = Session::opened();
        session.acquire("k a PX 1000");
        let mut thief = server.connection();
        let acquire = line("LOCK.ACQUIRE k thief PX 60000");
        server.while_stopped(|| {
            sleep(Duration::from_millis(1300));
            if first == "thief" {
                thief.post(&acquire);
            }
            session.post_poll(1);
            if first == "poll" {
                thief.post(&acquire);
            }
        });
        let polled = session.polled();
        let stolen = thief.receive().value() != redis::Value::Nil;
        if polled.events.is_empty() {
            assert!(polled.sure_ms == 0 || !stolen, "{first}: {polled:?}");
        }
        let lost = polled.events.len() + session.poll().events.len();
        assert_eq!(lost, 1, "{first}");
        run(&mut c, "DEL k").int();
    }
}

/// A share whose lease ends while the lock lives on, and whose place is given away before any timer fires.
#[test]
fn the_end_of_a_share_is_told_before_its_place_is_given_away() {
    let (server, mut c, mut session) = Session::opened();
    run(&mut c, "LOCK.ACQUIRE k b LIMIT 2 PX 600000").grant();
    session.acquire("k a LIMIT 2 PX 1000");
    let poll = session.line("LOCK.SESSION POLL ID");
    // Detached, so that it is not renewed.
    session.leave(&server);
    let acquire = "LOCK.ACQUIRE k c LIMIT 2 PX 600000";
    let mut c = server.connection();
    // In a transaction a POLL is answered as things are.
    let batch = ["DEBUG SLEEP 1.2", "MULTI", acquire, &poll, "EXEC"];
    let exec = at_once(&mut c, &batch).pop().expect("a reply to EXEC");
    let mut replies = exec.items().into_iter();
    replies.next().expect("two replies").grant();
    let polled = polled(replies.next().expect("two replies").reply());
    assert!(polled.events[0].ends_with(" expired"), "{polled:?}");
}

/// 10,000 events that are not acknowledged: no new grant, and no new wait.
#[test]
fn a_full_session_gets_no_new_grant() {
    let (server, mut c, mut session) = Session::opened();
    session.acquire("mine a PX 600000");
    let token = run(&mut c, "LOCK.ACQUIRE other a PX 600000").grant().token;
    run(&mut c, "LOCK.ACQUIRE busy b PX 600000").grant();
    // What depends on the lock's state comes last.
    run(&mut c, "LOCK._APPLY most a 7 2147483647 60000 -1").okay();
    run(&mut c, "LOCK.ACQUIRE twice a").grant();
    run(&mut c, "LOCK.ACQUIRE twice a").grant();
    run(&mut c, "LOCK.ACQUIRE short a PX 999").grant();
    run(&mut c, "PERSIST short").int();
    let share = run(&mut c, "LOCK.ACQUIRE share a SHARED").grant().token;
    for part in 0..20 {
        let keys = part * 500..(part + 1) * 500;
        session.acquire_all(&mut c, keys.clone().map(|n| format!("k{n} a PX 600000")));
        let deletions: Vec<_> = keys.map(|n| format!("DEL k{n}")).collect();
        at_once(&mut c, &deletions);
    }
    assert_eq!(session.number(&mut c, "events"), 10_000);
    let words = [
        "LOCK.ACQUIRE free a SESSION ID".to_owned(),
        "LOCK.ACQUIRE other a SESSION ID".to_owned(),
        "LOCK.RENEW other a SESSION ID".to_owned(),
        format!("LOCK.RENEW other a TOKEN {token} SESSION ID"),
        "LOCK.ACQUIRE busy a BLOCK 10 SESSION ID".to_owned(),
        "LOCK.ACQUIRE most a SESSION ID".to_owned(),
        "LOCK.RENEW twice a SHARED SESSION ID".to_owned(),
        "LOCK.RENEW short a SESSION ID".to_owned(),
        format!("LOCK.RENEW share a TOKEN {share} RAISE {share} SESSION ID"),
    ];
    for words in &words {
        let text = session.on(&mut c, words).refused("MAXWAITERS");
        assert!(text.contains("10000 events"), "{text}");
    }
    let last = server.last_token();
    assert_eq!(last, server.last_token());
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
    // Not for a re-entry, and not where it would be neither a grant nor a wait.
    let again = session.on(&mut c, "LOCK.ACQUIRE mine a SESSION ID");
    assert_eq!(again.grant().holds, 2);
    session.on(&mut c, "LOCK.ACQUIRE busy a SESSION ID").nil();
    session.poll();
    session.poll();
    session.acquire("free a");
}
