//! How long a session lives; replicas, failovers and nodes that are primary no more.

use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Expect, Server, Session, at_once, cmd, eventually, run, sessions_of, started};

/// Waits for the end of a session that is silent from now on, and demands that it comes in time.
#[track_caller]
fn ends_after(server: &Server, since: Instant, timeout_ms: u64) {
    eventually(|| server.count("sessions") == 0, "the end of the session");
    let lived = since.elapsed();
    let timeout = Duration::from_millis(timeout_ms);
    assert!(lived >= timeout, "too early: {lived:?}");
    // Two seconds, and what a busy machine takes.
    assert!(lived < timeout + Duration::from_secs(4), "{lived:?}");
    assert_eq!(server.count("sessions_silent"), 1);
}

#[test]
fn a_silent_session_ends_after_its_timeout() {
    let server = Server::start();
    let since = Instant::now();
    let mut session = Session::open_on(server.connection(), "TIMEOUT 1000");
    ends_after(&server, since, 1000);
    // Two know the sessions of all users: none has the id.
    for (words, knows_all) in [
        ("LOCK.SESSION POLL ID", false),
        ("LOCK.ACQUIRE k a SESSION ID", false),
        ("LOCK.SESSION CLOSE ID", false),
        ("LOCK.SESSION GRANTS ID", true),
        ("LOCK.SESSION KILL ID", true),
    ] {
        let text = session.run(words).refused("NOSESSION");
        assert!(!(knows_all && text.contains("user")), "{words}: {text}");
    }
}

#[test]
fn a_stall_of_the_server_is_no_silence() {
    let (server, mut c) = started();
    let began = Instant::now();
    let listed = Session::open_on(server.connection(), "TIMEOUT 60000");
    let mut session = Session::open_on(server.connection(), "TIMEOUT 1000");
    server.while_stopped(|| sleep(Duration::from_millis(2500)));
    session.poll();
    let since = Instant::now();
    // A POLL that comes at once cannot show that the silence is still counted without the stall.
    let idle = listed.number(&mut c, "idle-ms");
    let most = i64::try_from(began.elapsed().as_millis()).expect("short") - 2500;
    assert!(idle <= most, "{idle} of {most}");
    listed.on(&mut c, "LOCK.SESSION CLOSE ID").int();
    ends_after(&server, since, 900);
}

#[test]
fn a_pause_of_either_kind_is_no_silence() {
    for kind in ["ALL", "WRITE"] {
        let (server, mut c) = started();
        let mut session = Session::open_on(server.connection(), "TIMEOUT 1000");
        let words = format!("CLIENT PAUSE 2500 {kind}");
        run(&mut c, &words).okay();
        sleep(Duration::from_millis(2400));
        session.poll();
        let since = Instant::now();
        ends_after(&server, since, 900);
    }
}

#[test]
fn a_connection_with_another_user_or_database_polls_no_more() {
    let (server, mut c) = started();
    run(&mut c, "ACL SETUSER bob on >secret ~* +@all").okay();
    for (change, back) in [
        ("SELECT 1", "SELECT 0"),
        ("AUTH bob secret", "AUTH default x"),
    ] {
        let mut bare = Session::open(&server);
        assert!(bare.client_id(&mut c) > 0);
        run(&mut bare, change).okay();
        eventually(|| bare.client_id(&mut c) == 0, "it to be detached");
        assert_eq!(server.count("sessions_detached"), 1, "{change}");
        bare.on(&mut c, "LOCK.SESSION KILL ID").int();
        let mut session = Session::open(&server);
        run(&mut c, "DEL k").reply().ok();
        session.acquire("k a PX 1500");
        run(&mut session, change).okay();
        // Its grants are renewed no more: the lease ends.
        eventually(|| run(&mut c, "EXISTS k").int() == 0, "the lease to end");
        assert_eq!(session.client_id(&mut c), 0, "{change}");
        session.run("LOCK.SESSION POLL ID").refused("NOSESSION");
        if back == "SELECT 0" {
            run(&mut session, back).okay();
            let polled = session.poll();
            assert_eq!(polled.events.len(), 1);
            assert!(session.client_id(&mut c) > 0);
        }
        session.on(&mut c, "LOCK.SESSION KILL ID").int();
    }
}

/// The grants stand until their leases end, and nobody is told.
#[test]
fn a_session_that_ended_by_silence_releases_nothing() {
    let (server, mut c) = started();
    let mut session = Session::open_on(server.connection(), "TIMEOUT 1000");
    let token = session.acquire("k a PX 60000").token;
    session.acquire("persistent a PX 60000");
    run(&mut c, "PERSIST persistent").int();
    eventually(|| server.count("sessions") == 0, "the end of the session");
    assert_eq!(server.count("session_grants"), 0);
    assert_eq!(run(&mut c, "PTTL persistent").int(), -1);
    let left = run(&mut c, "PTTL k").int();
    assert!((50_000..60_000).contains(&left), "{left}");
    // A program that is still alive moves its grants to a new session.
    let mut again = Session::open(&server);
    let words = format!("LOCK.RENEW k a TOKEN {token} SESSION ID");
    again.run(&words).grant();
    assert_eq!(again.poll().grants, 1);
    assert_eq!(server.count("session_losses"), 0);
    let words = session.line("LOCK.RENEW persistent a SESSION ID");
    run(&mut again, &words).refused("NOSESSION");
}

#[test]
fn sessions_end_with_a_restart() {
    let mut server = Server::builder().config("appendonly", "yes").start();
    let mut session = Session::open(&server);
    let token = session.acquire("k a PX 600000").token;
    let id = session.id;
    server.restart();
    let mut c = server.connection();
    assert_eq!(server.count("sessions"), 0);
    run(&mut c, &format!("LOCK.SESSION POLL {id}")).refused("NOSESSION");
    cmd!(c, "LOCK.FENCE", "k", token).okay();
    let mut again = Session::open_on(c, "");
    again
        .run(&format!("LOCK.RENEW k a TOKEN {token} SESSION ID"))
        .grant();
}

/// Many sessions, and what is left of them when all have ended.
#[test]
fn nothing_is_left_of_sessions_that_ended() {
    let (server, mut c) = started();
    let mut lines = vec!["LOCK.SESSION OPEN TIMEOUT 1000"; 300];
    lines.push("INFO lock");
    let section = at_once(&mut c, &lines).pop().expect("a section").text();
    assert!(section.contains("lock_sessions:300\r\n"), "{section}");
    eventually(|| server.count("sessions") == 0, "their end");
    assert_eq!(server.count("sessions_silent"), 300);
    assert_eq!(run(&mut c, "LOCK.SESSION LIST").items().len(), 0);
}

#[test]
fn a_replica_lists_and_helps_and_no_more() {
    let (server, _c, mut session) = Session::opened();
    session.acquire("k a");
    let replica = server.replica();
    let mut r = replica.connection();
    for writable in ["yes", "no"] {
        run(&mut r, &format!("CONFIG SET replica-read-only {writable}")).okay();
        for words in [
            "LOCK.SESSION OPEN",
            "LOCK.SESSION POLL ID",
            "LOCK.SESSION GRANTS ID",
            "LOCK.SESSION CLOSE ID",
            "LOCK.SESSION KILL ID",
        ] {
            run(&mut r, &session.line(words)).refused("READONLY");
        }
        assert_eq!(run(&mut r, "LOCK.SESSION LIST").items().len(), 0);
        assert!(!run(&mut r, "LOCK.SESSION HELP").items().is_empty());
    }
    server.wait_for_sync(&replica);
    assert_eq!(run(&mut r, "EXISTS k").int(), 1);
    assert_eq!(sessions_of(&mut r, "k"), [0]);
}
