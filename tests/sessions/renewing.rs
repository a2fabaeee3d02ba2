//! The server renews the grants of a session that is attached.

use crate::support::{Session, await_renewals, count, end_of_lease, run, timed};
use std::thread::sleep;
use std::time::Duration;
use testbed::state::unix_ms;
use testbed::{Expect, Server, Talk, eventually, line, started};

#[test]
fn a_grant_is_renewed_when_a_third_of_its_lease_has_passed() {
    let (server, mut c, mut session) = Session::opened();
    let began = unix_ms();
    session.run("LOCK.ACQUIRE k a PX 3000 SESSION ID").grant();
    let first = end_of_lease(&mut c, "k");
    eventually(|| end_of_lease(&mut c, "k") != first, "the renewal");
    let renewed = end_of_lease(&mut c, "k") - 3000 - began;
    assert!((995..1700).contains(&renewed), "{renewed}");
    // And again and again, without a poll.
    await_renewals(&server, 3);
    assert!(run(&mut c, "PTTL k").int() > 1500);
    assert_eq!(session.poll().grants, 1);
}

/// When a third of the shorter lease has passed, not when it was due before.
#[test]
fn a_shortened_lease_is_renewed_in_time() {
    let (server, mut c, mut session) = Session::opened();
    session.run("LOCK.ACQUIRE k a PX 60000 SESSION ID").grant();
    run(&mut c, "LOCK.RENEW k a PX 3000").grant();
    await_renewals(&server, 2);
}

#[test]
fn while_it_is_detached_nothing_is_renewed() {
    let (server, mut c, mut session) = Session::opened();
    session.run("LOCK.ACQUIRE k a PX 6000 SESSION ID").grant();
    let id = session.id;
    drop(session);
    eventually(|| count(&server, "sessions_detached") == 1, "the close");
    let end = end_of_lease(&mut c, "k");
    // One that joins meanwhile keeps its lease.
    run(&mut c, &format!("LOCK.ACQUIRE j a PX 60000 SESSION {id}")).grant();
    let joined = end_of_lease(&mut c, "j");
    // A third of the lease, and a little more.
    eventually(|| run(&mut c, "PTTL k").int() < 3800, "it to be due");
    assert_eq!(end_of_lease(&mut c, "k"), end);
    // The next POLL attaches it, and renews what is due before it is answered.
    let mut again = Session {
        id,
        connection: server.connection(),
    };
    let polled = again.poll();
    assert!(polled.sure_ms > 3800, "{polled:?}");
    assert_eq!(polled.grants, 2);
    assert!(end_of_lease(&mut c, "k") > end);
    assert_eq!(end_of_lease(&mut c, "j"), joined);
    await_renewals(&server, 1);
}

/// Not even while grants of other sessions are due.
#[test]
fn no_command_renews_a_grant_of_a_detached_session() {
    let (server, mut c) = started();
    let mut attached = Session::open(&server);
    attached.run("LOCK.ACQUIRE j a PX 6000 SESSION ID").grant();
    let mut session = Session::open(&server);
    session.run("LOCK.ACQUIRE k a PX 6000 SESSION ID").grant();
    drop(session);
    eventually(|| count(&server, "sessions_detached") == 1, "the close");
    let end = end_of_lease(&mut c, "k");
    run(&mut c, "MULTI").okay();
    for words in ["DEBUG SLEEP 2.2", "LOCK.FENCE k", "PEXPIRETIME k"] {
        run(&mut c, words).text();
    }
    let replies = run(&mut c, "EXEC").items();
    assert_eq!(replies[2].clone().int(), end);
}

/// A client whose connections are cut as soon as it has polled keeps its grants.
#[test]
fn a_poll_renews_though_its_client_goes_at_once() {
    let (server, mut c, mut session) = Session::opened();
    session.run("LOCK.ACQUIRE k a PX 3000 SESSION ID").grant();
    let id = session.id;
    drop(session);
    for _ in 0..4 {
        sleep(Duration::from_millis(1200));
        let mut again = Session {
            id,
            connection: server.connection(),
        };
        assert_eq!(again.poll().events, Vec::<String>::new());
    }
    assert_eq!(run(&mut c, "EXISTS k").int(), 1);
    assert!(count(&server, "session_renewals") >= 4);
}

/// Thousands that are due are all renewed before the POLL is answered, and nobody else waits for that.
#[test]
fn a_poll_renews_all_that_is_due_before_it_is_answered() {
    const GRANTS: usize = 3000;
    let (server, mut c, session) = Session::opened();
    let lines: Vec<_> = (0..GRANTS)
        .map(|n| session.line(&format!("LOCK.ACQUIRE k{n} a PX 20000 SESSION ID")))
        .collect();
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    crate::support::at_once(&mut c, &lines);
    let id = session.id;
    drop(session);
    sleep(Duration::from_secs(8));
    assert_eq!(count(&server, "session_renewals"), 0);
    let mut again = Session {
        id,
        connection: server.connection(),
    };
    again.post_poll(1);
    let (_, longest) = timed(|| run(&mut c, "PING").text());
    let polled = again.polled();
    assert!(polled.sure_ms > 15_000, "{polled:?}");
    assert_eq!(polled.grants, 3000);
    assert_eq!(count(&server, "session_renewals"), 3000);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
}

/// A renewal raises no event, and wakes no WATCH and no cache. It counts as a write for save points.
#[test]
fn a_renewal_is_quiet() {
    let server = Server::builder()
        .config("notify-keyspace-events", "KEA")
        .start();
    let mut session = Session::open(&server);
    let mut watcher = server.connection();
    session.run("LOCK.ACQUIRE k a PX 1000 SESSION ID").grant();
    let mut events = server.client().get_connection().expect("a connection");
    events.post(&line("PSUBSCRIBE __key*__:*"));
    events.receive().value();
    run(&mut watcher, "WATCH k").okay();
    let dirty = |server: &Server| -> i64 {
        let text = server.info_field("persistence", "rdb_changes_since_last_save");
        text.parse().expect("a number")
    };
    let before = dirty(&server);
    await_renewals(&server, 3);
    assert!(dirty(&server) >= before + 3);
    run(&mut watcher, "MULTI").okay();
    run(&mut watcher, "PING").text();
    assert_eq!(run(&mut watcher, "EXEC").items().len(), 1, "WATCH");
    events
        .set_read_timeout(Some(Duration::from_millis(300)))
        .expect("a time limit");
    assert!(events.recv_response().is_err(), "an event");
}

#[test]
fn replicas_and_the_aof_get_renewals() {
    let server = Server::builder().config("appendonly", "yes").start();
    let replica = server.replica();
    let mut session = Session::open(&server);
    let (mut c, mut r) = (server.connection(), replica.connection());
    session.run("LOCK.ACQUIRE k a PX 2000 SESSION ID").grant();
    session
        .run("LOCK.ACQUIRE s a SHARED PX 2000 SESSION ID")
        .grant();
    session
        .run("LOCK.ACQUIRE s b SHARED PX 4000 SESSION ID")
        .grant();
    await_renewals(&server, 6);
    for key in ["k", "s"] {
        eventually(
            || end_of_lease(&mut c, key) == end_of_lease(&mut r, key),
            "the replica to follow",
        );
    }
    let fields = run(&mut r, "LOCK.HOLDERS k").items().remove(0).fields();
    assert_eq!(fields["session"].clone().int(), 0);
    assert!(server.aof().len() > 6);
}

#[test]
fn the_shares_of_a_lock_are_renewed_each_by_itself() {
    let server = Server::start();
    let mut first = Session::open(&server);
    let mut second = Session::open(&server);
    let mut c = server.connection();
    first
        .run("LOCK.ACQUIRE k a SHARED PX 1000 SESSION ID")
        .grant();
    second
        .run("LOCK.ACQUIRE k b SHARED PX 1500 SESSION ID")
        .grant();
    run(&mut c, "LOCK.ACQUIRE k c SHARED PX 1200").grant();
    await_renewals(&server, 8);
    let owners = |c: &mut redis::Connection| {
        let holders = run(c, "LOCK.HOLDERS k").items().into_iter();
        let owner = |holder: redis::Value| holder.fields()["owner"].clone().text();
        holders.map(owner).collect::<Vec<_>>()
    };
    assert_eq!(owners(&mut c), ["a", "b"]);
    drop(first);
    eventually(|| owners(&mut c) == ["b"], "its lease to end");
    assert_eq!(second.poll().events, Vec::<String>::new());
}

#[test]
fn a_persisted_lock_is_not_renewed_until_that_is_lifted() {
    let (_server, mut c, mut session) = Session::opened();
    session.run("LOCK.ACQUIRE k a PX 1500 SESSION ID").grant();
    run(&mut c, "PERSIST k").int();
    sleep(Duration::from_millis(1800));
    assert_eq!(run(&mut c, "PTTL k").int(), -1);
    let polled = session.poll();
    assert_eq!((polled.sure_ms, polled.grants), (-1, 1));
    assert_eq!(polled.events, Vec::<String>::new());
    // From then on a third passes until the next renewal.
    let lifted = unix_ms();
    run(&mut c, "PEXPIRE k 600000").int();
    let long = end_of_lease(&mut c, "k");
    eventually(|| end_of_lease(&mut c, "k") < long, "the renewal");
    let renewed = end_of_lease(&mut c, "k") - 1500;
    assert!(renewed - lifted >= 490, "{} ms", renewed - lifted);
    assert_eq!(session.poll().grants, 1);
    // A share is renewed, which gives the key its time to live again.
    session
        .run("LOCK.ACQUIRE s a SHARED PX 1500 SESSION ID")
        .grant();
    run(&mut c, "PERSIST s").int();
    eventually(|| run(&mut c, "PTTL s").int() > 0, "the renewal");
}
