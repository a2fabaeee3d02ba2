//! The server renews the grants of a session that is attached.

use redis::Value;
use std::thread::sleep;
use std::time::Duration;
use testbed::state::{deadline, unix_ms};
use testbed::{
    Expect, Server, Session, Talk, await_renewals, eventually, line, owners, run, timed,
    transaction,
};

#[test]
fn a_grant_is_renewed_when_a_third_of_its_lease_has_passed() {
    let (server, mut c, mut session) = Session::opened();
    let began = unix_ms();
    session.acquire("k a PX 3000");
    let first = deadline(&mut c, "k");
    eventually(|| deadline(&mut c, "k") != first, "the renewal");
    let renewed = deadline(&mut c, "k") - 3000 - began;
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
    session.acquire("k a PX 60000");
    run(&mut c, "LOCK.RENEW k a PX 3000").grant();
    await_renewals(&server, 2);
}

#[test]
fn while_it_is_detached_nothing_is_renewed() {
    let (server, mut c, mut session) = Session::opened();
    session.acquire("k a PX 6000");
    let id = session.leave(&server);
    let end = deadline(&mut c, "k");
    // One that joins meanwhile keeps its lease.
    run(&mut c, &format!("LOCK.ACQUIRE j a PX 60000 SESSION {id}")).grant();
    let joined = deadline(&mut c, "j");
    // A third of the lease, and a little more.
    eventually(|| run(&mut c, "PTTL k").int() < 3800, "it to be due");
    assert_eq!(deadline(&mut c, "k"), end);
    // The next POLL attaches it, and renews what is due before it is answered.
    let mut again = Session::again(id, &server);
    let polled = again.poll();
    assert!(polled.sure_ms > 3800, "{polled:?}");
    assert_eq!(polled.grants, 2);
    assert!(deadline(&mut c, "k") > end);
    assert_eq!(deadline(&mut c, "j"), joined);
    await_renewals(&server, 1);
}

/// Not even while grants of other sessions are due.
#[test]
fn no_command_renews_a_grant_of_a_detached_session() {
    let (server, mut c, mut attached) = Session::opened();
    attached.acquire("j a PX 6000");
    let mut session = Session::open(&server);
    session.acquire("k a PX 6000");
    session.leave(&server);
    let end = deadline(&mut c, "k");
    let lines = ["DEBUG SLEEP 2.2", "LOCK.FENCE k", "PEXPIRETIME k"];
    assert_eq!(transaction(&mut c, &lines)[2], Value::Int(end));
}

/// A client whose connections are cut as soon as it has polled keeps its grants.
#[test]
fn a_poll_renews_though_its_client_goes_at_once() {
    let (server, mut c, mut session) = Session::opened();
    session.acquire("k a PX 3000");
    let id = session.id;
    drop(session);
    for _ in 0..4 {
        sleep(Duration::from_millis(1200));
        let mut again = Session::again(id, &server);
        assert_eq!(again.poll().events, Vec::<String>::new());
    }
    assert_eq!(run(&mut c, "EXISTS k").int(), 1);
    assert!(server.count("session_renewals") >= 4);
}

/// Thousands that are due are all renewed before the POLL is answered, and nobody else waits for that.
#[test]
fn a_poll_renews_all_that_is_due_before_it_is_answered() {
    const GRANTS: usize = 3000;
    let (server, mut c, session) = Session::opened();
    session.acquire_all(&mut c, (0..GRANTS).map(|n| format!("k{n} a PX 20000")));
    let id = session.leave(&server);
    sleep(Duration::from_secs(8));
    assert_eq!(server.count("session_renewals"), 0);
    let mut again = Session::again(id, &server);
    again.post_poll(1);
    let (longest, _) = timed(|| run(&mut c, "PING").text());
    let polled = again.polled();
    assert!(polled.sure_ms > 15_000, "{polled:?}");
    assert_eq!(polled.grants, 3000);
    assert_eq!(server.count("session_renewals"), 3000);
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
    session.acquire("k a PX 1000");
    let mut events = server.client().get_connection().expect("a connection");
    events.post(&line("PSUBSCRIBE __key*__:*"));
    events.receive().value();
    run(&mut watcher, "WATCH k").okay();
    let dirty = || server.number("persistence", "rdb_changes_since_last_save");
    let before = dirty();
    await_renewals(&server, 3);
    assert!(dirty() >= before + 3);
    assert_eq!(transaction(&mut watcher, &["PING"]).len(), 1, "WATCH");
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
    session.acquire("k a PX 2000");
    session.acquire("s a SHARED PX 2000");
    session.acquire("s b SHARED PX 4000");
    await_renewals(&server, 6);
    for key in ["k", "s"] {
        let mut follows = || deadline(&mut c, key) == deadline(&mut r, key);
        eventually(&mut follows, "the replica to follow");
    }
    let fields = run(&mut r, "LOCK.HOLDERS k").items().remove(0).fields();
    assert_eq!(fields["session"].clone().int(), 0);
    assert!(server.aof().len() > 6);
}

#[test]
fn the_shares_of_a_lock_are_renewed_each_by_itself() {
    let (server, mut c, mut first) = Session::opened();
    let mut second = Session::open(&server);
    first.acquire("k a SHARED PX 1000");
    second.acquire("k b SHARED PX 1500");
    run(&mut c, "LOCK.ACQUIRE k c SHARED PX 1200").grant();
    await_renewals(&server, 8);
    assert_eq!(owners(&mut c), ["a", "b"]);
    drop(first);
    eventually(|| owners(&mut c) == ["b"], "its lease to end");
    assert_eq!(second.poll().events, Vec::<String>::new());
}

#[test]
fn a_persisted_lock_is_not_renewed_until_that_is_lifted() {
    let (_server, mut c, mut session) = Session::opened();
    session.acquire("k a PX 1500");
    run(&mut c, "PERSIST k").int();
    sleep(Duration::from_millis(1800));
    assert_eq!(run(&mut c, "PTTL k").int(), -1);
    let polled = session.poll();
    assert_eq!((polled.sure_ms, polled.grants), (-1, 1));
    assert_eq!(polled.events, Vec::<String>::new());
    // From then on a third passes until the next renewal.
    let lifted = unix_ms();
    run(&mut c, "PEXPIRE k 600000").int();
    let long = deadline(&mut c, "k");
    eventually(|| deadline(&mut c, "k") < long, "the renewal");
    let renewed = deadline(&mut c, "k") - 1500;
    assert!(renewed - lifted >= 490, "{} ms", renewed - lifted);
    assert_eq!(session.poll().grants, 1);
    // A share is renewed, which gives the key its time to live again.
    session.acquire("s a SHARED PX 1500");
    run(&mut c, "PERSIST s").int();
    eventually(|| run(&mut c, "PTTL s").int() > 0, "the renewal");
}
