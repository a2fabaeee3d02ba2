//! The words of `LOCK.SESSION`, and of `SESSION id` in other commands.

use redis::Value;
use testbed::{Expect, Server, Session, cmd, run, started};

#[test]
fn an_id_is_a_random_integer() {
    let (server, mut c) = started();
    let ids: Vec<_> = (0..20)
        .map(|_| run(&mut c, "LOCK.SESSION OPEN").int())
        .collect();
    assert!(ids.iter().all(|id| (1..1 << 53).contains(id)), "{ids:?}");
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 20);
    assert_ne!(ids, sorted, "at random");
    assert_eq!(server.count("sessions"), 20);
}

#[test]
fn open_takes_a_timeout_and_a_name() {
    let (server, mut c) = started();
    for (words, timeout_ms, name) in [
        ("", 30_000, ""),
        ("TIMEOUT 1000", 1000, ""),
        ("name me timeout 86400000", 86_400_000, "me"),
        ("Name TIMEOUT", 30_000, "TIMEOUT"),
    ] {
        let session = Session::open_on(server.connection(), words);
        let fields = session.listed(&mut c);
        assert_eq!(fields["timeout-ms"], Value::Int(timeout_ms), "{words}");
        assert_eq!(fields["name"].clone().text(), name, "{words}");
    }
    let longest = "n".repeat(256);
    cmd!(c, "LOCK.SESSION", "OPEN", "NAME", longest).int();
    cmd!(c, "LOCK.SESSION", "OPEN", "NAME", "").int();
    cmd!(c, "LOCK.SESSION", "OPEN", "NAME", b"\0\xff".as_slice()).int();
    let longer = "n".repeat(257);
    cmd!(c, "LOCK.SESSION", "OPEN", "NAME", longer).refused("ERR");
    for (words, part) in [
        ("TIMEOUT 999", "TIMEOUT takes"),
        ("TIMEOUT 86400001", "TIMEOUT takes"),
        ("TIMEOUT -1", "TIMEOUT takes"),
        ("TIMEOUT x", "TIMEOUT takes"),
        ("TIMEOUT", "TIMEOUT takes"),
        ("NAME", "NAME takes"),
        ("TIMEOUT 1000 TIMEOUT 1000", "TIMEOUT is given twice"),
        ("NAME a NAME b", "NAME is given twice"),
        ("BLOCK 5", "unknown option 'BLOCK'"),
    ] {
        let text = run(&mut c, &format!("LOCK.SESSION OPEN {words}")).refused("ERR");
        assert!(text.contains(part), "{words}: {text}");
    }
}

/// A lock in a session is looked at often, and each look takes as long as its name is.
#[test]
fn a_lock_with_a_very_long_name_is_in_no_session() {
    let server = Server::start();
    let mut session = Session::open(&server);
    let (longest, longer) = ("k".repeat(8192), "k".repeat(8193));
    session.acquire(&format!("{longest} a"));
    run(&mut session, &format!("LOCK.ACQUIRE {longer} a")).grant();
    for words in [
        "LOCK.ACQUIRE KEY a SESSION ID",
        "LOCK.RENEW KEY a SESSION ID",
        "LOCK.RENEW KEY a SESSION 0",
        "LOCK.RELEASE KEY a SESSION ID TOKEN 1",
    ] {
        let text = session.run(&words.replace("KEY", &longer)).refused("ERR");
        assert!(text.contains("8192 bytes"), "{text}");
    }
}

#[test]
fn as_many_sessions_are_open_as_the_setting_allows() {
    let (server, mut c) = started();
    run(&mut c, "CONFIG SET lock.max-sessions 2").okay();
    let first = Session::open(&server);
    run(&mut c, "LOCK.SESSION OPEN").int();
    let text = run(&mut c, "LOCK.SESSION OPEN").refused("MAXSESSIONS");
    assert!(text.contains("lock.max-sessions"), "{text}");
    run(&mut c, &first.line("LOCK.SESSION KILL ID")).int();
    run(&mut c, "LOCK.SESSION OPEN").int();
    run(&mut c, "CONFIG SET lock.max-sessions 0").okay();
    run(&mut c, "LOCK.SESSION OPEN").refused("MAXSESSIONS");
    assert_eq!(server.count("sessions"), 2);
    run(&mut c, "CONFIG SET lock.max-sessions -1").refused("ERR");
    run(&mut c, "CONFIG SET lock.max-sessions 1000001").refused("ERR");
}
