//! The words that `QUEUE` goes with.

use crate::support::{Session, hold, queued, run};
use testbed::{Expect, Server, held, waiters};

#[test]
fn queue_needs_a_session_and_holds() {
    let (server, mut c) = held();
    let session = Session::open(&server);
    for (words, part) in [
        ("LOCK.ACQUIRE k b QUEUE 0", "QUEUE"),
        ("LOCK.ACQUIRE k b QUEUE 0 SESSION ID", "HOLDS"),
        ("LOCK.ACQUIRE k b QUEUE 0 HOLDS 1", "SESSION"),
        // A lock that is free makes no difference.
        ("LOCK.ACQUIRE free b QUEUE 0", "QUEUE"),
        ("LOCK.ACQUIRE free b QUEUE 0 SESSION ID", "HOLDS"),
    ] {
        let text = run(&mut c, &session.line(words)).refused("ERR");
        assert!(text.contains(part), "{words}: {text}");
    }
    assert_eq!(queued(&server), 0);
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
}

#[test]
fn queue_goes_with_neither_block_nor_token() {
    let (server, mut c) = held();
    let token = run(&mut c, "LOCK.FENCE k").int();
    let session = Session::open(&server);
    for (words, part) in [
        ("k b QUEUE 0 BLOCK 0 SESSION ID HOLDS 1", "BLOCK"),
        ("k b BLOCK 10 SESSION ID HOLDS 1 QUEUE 10", "BLOCK"),
        ("k a QUEUE 0 TOKEN TOK SESSION ID HOLDS 1", "TOKEN"),
        ("k b QUEUE 0 TOKEN 1 SESSION ID HOLDS 1", "TOKEN"),
    ] {
        let words = words.replace("TOK ", &format!("{token} "));
        let words = session.line(&format!("LOCK.ACQUIRE {words}"));
        let text = run(&mut c, &words).refused("ERR");
        assert!(text.contains(part), "{words}: {text}");
    }
    assert_eq!(queued(&server), 0);
}

/// Nobody could repeat the call.
#[test]
fn an_owner_that_the_server_names_cannot_queue() {
    let (server, mut c) = held();
    let session = Session::open(&server);
    session.ask(&mut c, "k *").refused("ERR");
    session.ask(&mut c, "free *").refused("ERR");
    assert_eq!(queued(&server), 0);
}

#[test]
fn a_wait_is_at_most_ten_years() {
    let (server, mut c) = held();
    let session = Session::open(&server);
    for ms in ["-1", "315360000001", "x", "1.5", "01", ""] {
        let words = format!("LOCK.ACQUIRE k b SESSION ID HOLDS 1 QUEUE {ms}");
        let text = run(&mut c, &session.line(&words)).refused("ERR");
        assert!(text.contains("QUEUE takes"), "{ms:?}: {text}");
    }
    for (owner, ms) in [("b", "0"), ("c", "60000"), ("d", "315360000000")] {
        let words = format!("LOCK.ACQUIRE k {owner} SESSION ID HOLDS 1 QUEUE {ms}");
        run(&mut c, &session.line(&words)).int();
    }
    assert_eq!(waiters(&mut c, "k"), ["b", "c", "d"]);
}

#[test]
fn queue_is_given_once_and_its_words_come_in_any_order() {
    let (server, mut c) = held();
    let session = Session::open(&server);
    let twice = "LOCK.ACQUIRE k b QUEUE 0 SESSION ID HOLDS 1 QUEUE 0";
    let text = run(&mut c, &session.line(twice)).refused("ERR");
    assert!(text.contains("once"), "{text}");
    for (place, words) in (0..).zip([
        "k b queue 0 session ID holds 1",
        "k c HOLDS 1 QUEUE 0 SESSION ID PX 5000",
        "k d SESSION ID HOLDS 1 Queue 0 EX 5",
        "k e LIMIT 2 HOLDS 1 SESSION ID QUEUE 0",
        "k f SHARED QUEUE 0 HOLDS 1 SESSION ID",
    ]) {
        let words = session.line(&format!("LOCK.ACQUIRE {words}"));
        assert_eq!(run(&mut c, &words).int(), place, "{words}");
    }
}

/// Its grant would be in the session.
#[test]
fn a_lease_that_is_too_short_for_a_session_is_an_error() {
    let (server, mut c) = held();
    let session = Session::open(&server);
    let words = session.line("LOCK.ACQUIRE k b PX 999 QUEUE 0 SESSION ID HOLDS 1");
    let text = run(&mut c, &words).refused("ERR");
    assert!(text.contains("1000 milliseconds"), "{text}");
    let words = session.line("LOCK.ACQUIRE k b PX 1000 QUEUE 0 SESSION ID HOLDS 1");
    assert_eq!(run(&mut c, &words).int(), 0);
}

#[test]
fn a_very_long_name_cannot_be_queued_for() {
    let server = Server::start();
    let mut c = server.connection();
    let session = Session::open(&server);
    let (longest, longer) = ("k".repeat(8192), "k".repeat(8193));
    for key in [&longest, &longer] {
        hold(&mut c, &[&format!("{key} a")]);
    }
    assert_eq!(session.queue(&mut c, &format!("{longest} b")), 0);
    let text = session.ask(&mut c, &format!("{longer} b")).refused("ERR");
    assert!(text.contains("8192 bytes"), "{text}");
}
