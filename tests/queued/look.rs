//! Queued calls in WAITERS, in the list of sessions and in INFO.

use crate::support::{granted, hold};
use redis::{Connection, Value};
use std::collections::BTreeMap;
use testbed::{Expect, Session, cmd, eventually, held, run, wait, waiters};

#[track_caller]
fn line_of(c: &mut Connection, key: &str) -> Vec<BTreeMap<String, Value>> {
    let waiters = cmd!(*c, "LOCK.WAITERS", key).items();
    waiters.into_iter().map(Expect::fields).collect()
}

#[test]
fn waiters_has_the_session_and_the_connection_that_polls_it() {
    let (server, mut c, mut session) = Session::held();
    let opener = cmd!(session.connection, "CLIENT", "ID").int();
    session.queue(&mut c, "k b");
    let _blocked = wait(&server, "k c LIMIT 2 BLOCK 60000");
    session.queue(&mut c, "k d SHARED");
    let line = line_of(&mut c, "k");
    assert_eq!(waiters(&mut c, "k"), ["b", "c", "d"]);
    let all = |field: &str| -> Vec<_> {
        let values = line.iter().map(|call| call[field].clone().int());
        values.collect()
    };
    assert_eq!(all("session"), [session.id, 0, session.id]);
    assert_eq!(all("limit"), [1, 2, 0]);
    let clients = all("client-id");
    assert_eq!((clients[0], clients[2]), (opener, opener));
    assert_ne!(clients[1], opener);
    let left = all("left-ms");
    assert_eq!((left[0], left[2]), (-1, -1));
    assert!(line.iter().all(|call| call.len() == 6), "{line:?}");
    // A newer connection polls, and then none.
    let mut newer = session.reconnect(&server);
    assert_eq!(line_of(&mut c, "k")[0]["client-id"], Value::Int(0));
    newer.poll();
    let id = cmd!(newer.connection, "CLIENT", "ID").int();
    assert_eq!(line_of(&mut c, "k")[0]["client-id"], Value::Int(id));
    assert_eq!(run(&mut c, "LOCK.WAITERS k COUNT 1").items().len(), 1);
}

#[test]
fn waiters_has_the_times_of_a_call() {
    let (_server, mut c, session) = Session::held();
    let words = session.line("LOCK.ACQUIRE k b QUEUE 600000 SESSION ID HOLDS 1");
    run(&mut c, &words).int();
    let times = |c: &mut Connection| {
        let fields = line_of(c, "k").remove(0);
        ["waited-ms", "left-ms"].map(|field| fields[field].clone().int())
    };
    eventually(|| times(&mut c)[0] >= 100, "it to wait for a while");
    // A repeated call does not begin anew.
    run(&mut c, &words).int();
    let [waited, left] = times(&mut c);
    assert!(waited >= 100, "{waited}");
    assert!((599_999..=600_001).contains(&(waited + left)), "{left}");
}

#[test]
fn the_lock_the_session_and_the_server_count_them() {
    let (server, mut c) = held();
    hold(&mut c, &["j a"]);
    let session = Session::open(&server);
    let other = Session::open(&server);
    session.queue(&mut c, "k b");
    session.queue(&mut c, "j b");
    other.queue(&mut c, "k c");
    let _blocked = wait(&server, "k d BLOCK 0");
    assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().waiters, 3);
    assert_eq!(run(&mut c, "LOCK.INFO j").lock_info().waiters, 1);
    assert_eq!(session.number(&mut c, "waiting"), 2);
    assert_eq!(other.number(&mut c, "waiting"), 1);
    assert_eq!(server.count("queued"), 3);
    run(&mut c, "LOCK.RELEASE k b ALL").int();
    assert_eq!(session.number(&mut c, "waiting"), 1);
    assert_eq!(session.number(&mut c, "events"), 1);
    assert_eq!(server.count("queued"), 2);
}

#[test]
fn hotkeys_counts_a_wait_that_ends_with_a_grant() {
    let (_server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.events(1), [granted(&mut c, 1, "k", "b")]);
    let mut keys = run(&mut c, "LOCK.HOTKEYS").items();
    let key = keys.remove(0).fields();
    assert_eq!(key["key"].clone().text(), "k");
    let counts = ["waits", "timeouts"].map(|field| key[field].clone().int());
    assert_eq!(counts, [1, 0]);
}
