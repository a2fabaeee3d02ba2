//! The event `granted`: what it says, and to whom the grant belongs.

use crate::sessions::{await_renewals, sessions_of};
use crate::support::{Session, at_once, count, granted, has, hold, queued, run};
use redis::{Connection, Value};
use testbed::{Expect, Server, cmd};

/// The one event of a grant, as the server wrote it.
#[track_caller]
fn raw_event(mut session: Session, server: &Server) -> Vec<Value> {
    let mut c = server.connection();
    let key = b"k\0\xff".as_slice();
    cmd!(c, "LOCK.ACQUIRE", key, "a", "PX", 600_000).grant();
    cmd!(
        c,
        "LOCK.ACQUIRE",
        key,
        b"\r\n\xfe".as_slice(),
        "PX",
        5000,
        "QUEUE",
        0,
        "SESSION",
        session.id,
        "HOLDS",
        1
    )
    .int();
    session.stay(server);
    cmd!(c, "LOCK.RELEASE", key, "a").int();
    let mut fields = session
        .connection
        .recv_response()
        .expect("a reply")
        .fields();
    assert_eq!(fields["grants"], Value::Int(1));
    let mut events = fields.remove("events").expect("events").items();
    assert_eq!(events.len(), 1, "{events:?}");
    let token = cmd!(c, "LOCK.FENCE", key).int();
    let event = events.remove(0).items();
    assert_eq!(event[4], Value::Int(token));
    event
}

#[track_caller]
fn is_complete(event: &[Value]) {
    let [number, kind, key, owner, _token, holds, lease, limit] = event else {
        panic!("{event:?}");
    };
    assert_eq!(number, &Value::Int(1));
    assert_eq!(kind.clone().text(), "granted");
    assert_eq!(key, &Value::BulkString(b"k\0\xff".to_vec()));
    assert_eq!(owner, &Value::BulkString(b"\r\n\xfe".to_vec()));
    assert_eq!(
        (holds, lease, limit),
        (&Value::Int(1), &Value::Int(5000), &Value::Int(1))
    );
}

#[test]
fn it_has_the_parts_of_the_grant_in_resp2_and_resp3() {
    let server = Server::start();
    is_complete(&raw_event(Session::open(&server), &server));
    let server = Server::start();
    let third = Session::open_on(server.connection_resp3(), "");
    is_complete(&raw_event(third, &server));
}

#[test]
fn a_poll_that_waits_is_answered_at_once() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let polled = session.polled();
    assert_eq!(polled.events, [granted(&mut c, 1, "k", "b")]);
    assert_eq!(polled.grants, 1);
    // It counts for the grants of the reply's own events.
    assert!(
        (500_000..=600_000 + 60_000).contains(&polled.sure_ms),
        "{}",
        polled.sure_ms
    );
    assert_eq!(queued(&server), 0);
}

#[test]
fn the_grant_belongs_to_the_session_which_renews_it() {
    let (server, mut c, mut session) = Session::held();
    let words = session.line("LOCK.ACQUIRE k b PX 3000 QUEUE 0 SESSION ID HOLDS 1");
    run(&mut c, &words).int();
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let token = cmd!(c, "LOCK.FENCE", "k").int();
    assert_eq!(session.told(), [format!("1 granted k b {token} 1 3000 1")]);
    assert_eq!(sessions_of(&mut c, "k"), [session.id]);
    let grants = run(&mut c, &session.line("LOCK.SESSION GRANTS ID")).items();
    let fields = grants.into_iter().next().expect("a grant").fields();
    assert_eq!(fields["token"], Value::Int(token));
    // One renewal a second: the lease of three seconds outlasts a machine that stands still for two.
    await_renewals(&server, 4);
    cmd!(c, "LOCK.FENCE", "k", token).okay();
    run(&mut c, "DEL k").int();
    let lost = format!("2 lost k b {token} deleted");
    assert_eq!(session.events(1), [lost]);
}

#[test]
fn the_limit_is_that_of_the_grant() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b SHARED");
    session.queue(&mut c, "k c LIMIT 3");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let mut events = session.told();
    events.extend(session.events(2 - events.len()));
    let limits: Vec<_> = events
        .iter()
        .map(|event| {
            let words: Vec<_> = event.split(' ').collect();
            (words[3], words[7])
        })
        .collect();
    assert_eq!(limits, [("b", "0"), ("c", "3")]);
}

#[track_caller]
fn holds_both(c: &mut Connection, keys: [&str; 2], owner: &str) {
    for key in keys {
        has(c, key, &[owner]);
    }
}

/// Locks that come free between two polls are in one reply.
#[test]
fn one_reply_carries_what_came_together() {
    let (server, mut c, mut session) = Session::opened();
    let keys: Vec<_> = (0..64).map(|n| format!("k{n}")).collect();
    for key in &keys {
        hold(&mut c, &[&format!("{key} a")]);
        session.queue(&mut c, &format!("{key} b"));
    }
    let poll = session.line("LOCK.SESSION POLL ID");
    let releases = keys.iter().map(|key| format!("LOCK.RELEASE {key} a"));
    let lines: Vec<_> = [poll.clone()]
        .into_iter()
        .chain(releases)
        .chain([poll])
        .collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let last = at_once(&mut session, &lines).pop().expect("a reply");
    let polled = crate::sessions::polled(last);
    let expected: Vec<_> = (1..)
        .zip(&keys)
        .map(|(number, key)| granted(&mut c, number, key, "b"))
        .collect();
    assert_eq!(polled.events, expected);
    assert_eq!(polled.grants, 64);
    assert_eq!(count(&server, "session_grants"), 64);
    holds_both(&mut c, ["k0", "k63"], "b");
}
