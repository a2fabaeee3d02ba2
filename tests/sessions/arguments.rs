//! The words of `LOCK.SESSION` and of `SESSION id` in other commands. Where several errors would apply: `ERR` for the
//! arguments, `NOSESSION`, then as without a session, and last what depends on the lock's state.

use redis::Value;
use testbed::{Expect, Session, at_once, cmd, run, started};

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
    let (_server, _c, mut session) = Session::opened();
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
    first.on(&mut c, "LOCK.SESSION KILL ID").int();
    run(&mut c, "LOCK.SESSION OPEN").int();
    run(&mut c, "CONFIG SET lock.max-sessions 0").okay();
    run(&mut c, "LOCK.SESSION OPEN").refused("MAXSESSIONS");
    assert_eq!(server.count("sessions"), 2);
    run(&mut c, "CONFIG SET lock.max-sessions -1").refused("ERR");
    run(&mut c, "CONFIG SET lock.max-sessions 1000001").refused("ERR");
}

#[test]
fn the_first_of_the_order_wins() {
    let (_server, mut c, mut session) = Session::opened();
    run(&mut c, "SET string v").okay();
    run(&mut c, "LOCK.ACQUIRE short a PX 999 HOLDS 1").grant();
    run(&mut c, "PERSIST short").int();
    for (words, code) in [
        ("LOCK.ACQUIRE string a SESSION 7 PX 999", "ERR"),
        ("LOCK.ACQUIRE string a SESSION 7", "NOSESSION"),
        ("LOCK.RENEW string a SESSION 7", "NOSESSION"),
        ("LOCK.RENEW free a SESSION 7", "NOSESSION"),
        ("LOCK.RENEW short b SESSION 7", "NOSESSION"),
        ("LOCK.ACQUIRE string a SESSION ID", "WRONGTYPE"),
        ("LOCK.RENEW string a SESSION ID", "WRONGTYPE"),
        ("LOCK.RELEASE string a TOKEN 1 SESSION 7", "WRONGTYPE"),
        ("LOCK.RENEW free a SESSION ID", "NOTHELD"),
        ("LOCK.RENEW free a SESSION 0", "NOTHELD"),
        ("LOCK.ACQUIRE free a HOLDS 2 SESSION ID", "NOTHELD"),
        ("LOCK.RELEASE free a TOKEN 1 SESSION ID", "NOTHELD"),
        ("LOCK.RENEW short b SESSION ID", "NOTOWNER"),
        ("LOCK.RELEASE short b TOKEN 1 SESSION ID", "NOTOWNER"),
        ("LOCK.RENEW short a TOKEN 7 SESSION ID", "FENCED"),
        ("LOCK.RENEW short a TOKEN 7 SESSION 0", "FENCED"),
        ("LOCK.ACQUIRE short a TOKEN 7 SESSION ID", "FENCED"),
        ("LOCK.RELEASE short a TOKEN 7 SESSION ID", "FENCED"),
        ("LOCK.RENEW short a SESSION ID", "ERR"),
        ("LOCK.ACQUIRE short a SESSION ID", "ERR"),
    ] {
        println!("{words}");
        session.run(words).refused(code);
    }
    // NOTALONE and AHEAD come before the lease.
    let lines = [
        "LOCK.ACQUIRE shared a SHARED PX 999",
        "LOCK.ACQUIRE shared b SHARED PX 600000",
        &session.line("LOCK.ACQUIRE shared a SESSION ID"),
    ];
    let mut last = at_once(&mut c, &lines);
    last.pop().expect("a reply").refused("NOTALONE");
    let token = run(&mut c, "LOCK.FENCE short").int();
    let far = token + 3_600_000_000;
    let words = format!("LOCK.RENEW short a TOKEN {token} RAISE {far} SESSION ID");
    session.run(&words).refused("AHEAD");
    // Nothing is changed by any of them.
    assert_eq!(session.poll().grants, 0);
    let info = run(&mut c, "LOCK.INFO short").lock_info();
    assert_eq!((info.holds, info.lease_ms, info.token), (1, 999, token));
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
}

#[test]
fn a_refused_call_lifts_no_token() {
    let (server, mut c, mut session) = Session::opened();
    let token = run(&mut c, "LOCK.ACQUIRE short a PX 999").grant().token;
    run(&mut c, "PERSIST short").int();
    let last = server.last_token();
    let words = format!(
        "LOCK.RENEW short a TOKEN {token} RAISE {} SESSION ID",
        last + 2_000_000
    );
    session.run(&words).refused("ERR");
    assert_eq!(server.last_token(), last);
}
