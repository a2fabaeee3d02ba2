//! The event `granted`: what it says, and to whom the grant belongs.

use crate::support::{granted, has, hold};
use redis::Value;
use testbed::{
    Expect, Server, Session, Talk, at_once, await_renewals, cmd, polled, run, sessions_of,
};

#[test]
fn it_has_the_parts_of_the_grant_in_resp2_and_resp3() {
    let server = Server::start();
    for connection in [server.connection(), server.connection_resp3()] {
        let mut c = server.connection();
        let (key, owner) = (&b"k\0\xff"[..], &b"\r\n\xfe"[..]);
        let mut session = Session::open_on(connection, "");
        cmd!(c, "LOCK.ACQUIRE", key, "a", "PX", 600_000).grant();
        let options = ["PX", "5000", "QUEUE", "0", "HOLDS", "1", "SESSION"];
        cmd!(c, "LOCK.ACQUIRE", key, owner, options, session.id).int();
        session.stay(&server);
        cmd!(c, "LOCK.RELEASE", key, "a").int();
        let mut fields = session.receive().fields();
        assert_eq!(fields["grants"], Value::Int(1));
        let events = fields.remove("events").expect("events").items();
        let [event] = <[_; 1]>::try_from(events).expect("one event");
        let token = cmd!(c, "LOCK.FENCE", key).int();
        let bytes = |bytes: &[u8]| Value::BulkString(bytes.to_vec());
        let numbers = [token, 1, 5000, 1].map(Value::Int);
        let mut event = event.items();
        assert_eq!(event.remove(1).text(), "granted");
        let expected = [Value::Int(1), bytes(key), bytes(owner)];
        assert_eq!(event, [&expected[..], &numbers].concat());
        cmd!(c, "DEL", key).int();
    }
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
    let sure = polled.sure_ms;
    assert!((500_000..=660_000).contains(&sure), "{sure}");
    assert_eq!(server.count("queued"), 0);
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
    let events = session.told_all(2);
    for (event, (owner, limit)) in events.iter().zip([("b", "0"), ("c", "3")]) {
        let words: Vec<_> = event.split(' ').collect();
        assert_eq!((words[3], words[7]), (owner, limit), "{event}");
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
    let mut lines: Vec<_> = [poll.clone()].into_iter().chain(releases).collect();
    lines.push(poll);
    let last = at_once(&mut session, &lines).pop().expect("a reply");
    let polled = polled(last);
    let expected: Vec<_> = (1..)
        .zip(&keys)
        .map(|(number, key)| granted(&mut c, number, key, "b"))
        .collect();
    assert_eq!(polled.events, expected);
    assert_eq!(polled.grants, 64);
    assert_eq!(server.count("session_grants"), 64);
    for key in ["k0", "k63"] {
        has(&mut c, key, &["b"]);
    }
}
