//! The commands of locks, run by another module (`RM_Call`), with each form of call that a server has, and by a thread of
//! its own.

use crate::support::{beside, held, is_well, start};
use redis::{Connection, Value};
use testbed::{
    Expect, Kind, Reply, Server, Session, Talk, cmd, eventually, owner, run, wait_as, waiters,
};

/// Formats of calls; a server refuses those that it does not know.
const FORMATS: [&str; 16] = [
    "", "E", "C", "CE", "!E", "3E", "0E", "SE", "WE", "ME", "SWE", "SMCE", "XE", "KE", "KCE",
    "K3!E",
];

const LINES: [&str; 15] = [
    "LOCK.ACQUIRE k b",
    "LOCK.ACQUIRE k b BLOCK 0",
    "LOCK.ACQUIRE k b BLOCK 1",
    "LOCK.ACQUIRE free * BLOCK 0",
    "LOCK.ACQUIRE k",
    "LOCK.RENEW k a",
    "LOCK.RELEASE k b",
    "LOCK.FENCE k",
    "LOCK.FENCE k 7",
    "LOCK.INFO k",
    "LOCK.WAITERS k",
    "LOCK.HOTKEYS",
    "LOCK._APPLY j effect",
    "LOCK._CLOCK 7",
    "LOCK._PROBE k",
];

/// What the server lets a module call without a client's user, it answers; whatever the format, the
/// server and the lock stay as they should be.
#[test]
fn every_command_bears_every_form_of_call() {
    let (server, mut c) = held();
    for words in LINES {
        for format in FORMATS {
            let mut call = redis::cmd("NEIGHBOUR.CALL");
            call.arg(format);
            call.arg(testbed::words(words));
            let what = format!("{format} {words}");
            let answer: Reply = c.send(&call);
            let later = answer == Ok(Value::SimpleString("LATER".into()));
            assert!(!later || words.contains("BLOCK"), "{what}: {answer:?}");
            run(&mut c, "LOCK.RELEASE k b ALL").reply().ok();
            assert_eq!(owner(&mut c), "a", "{what}");
        }
    }
    eventually(|| waiters(&mut c, "k").is_empty(), "nobody to be in line");
    is_well(&server);
}

/// Whether another module's call may wait here.
fn lets_modules_wait() -> bool {
    let version = Server::version();
    version.is_redis_from(7, 2) || version.kind == Kind::Valkey
}

/// Has the neighbour make a call that waits.
#[track_caller]
fn call_later(c: &mut Connection, format: &str, words: &str) {
    let call = format!("NEIGHBOUR.CALL {format} LOCK.ACQUIRE {words}");
    assert_eq!(run(c, &call).text(), "LATER");
}

/// The reply to it.
#[track_caller]
fn came(c: &mut Connection, what: &str) -> Reply {
    eventually(|| run(c, "NEIGHBOUR.CAME").int() == 1, what);
    run(c, "NEIGHBOUR.REPLY")
}

/// From Redis 7.2 and on Valkey a module may ask to be answered later. Such a call has no user, or that of
/// the client for which it is made.
#[test]
fn a_call_that_waits_for_another_module_is_served_in_turn() {
    testbed::needs!(lets_modules_wait());
    for format in ["KE", "KCE"] {
        let (server, mut c) = held();
        call_later(&mut server.connection(), format, "k b PX 600000 BLOCK 0");
        assert_eq!(waiters(&mut c, "k"), ["b"]);
        run(&mut c, "LOCK.RELEASE k a").int();
        assert_eq!(owner(&mut c), "b");
        assert_eq!(came(&mut c, "the grant").grant().owner, b"b");
        is_well(&server);
    }
}

#[test]
fn a_call_that_waits_for_another_module_ends_as_others_do() {
    testbed::needs!(lets_modules_wait());
    for (end, owners_call) in [("time", "k b BLOCK 20"), ("its owner", "k b BLOCK 0")] {
        let (server, mut c) = held();
        call_later(&mut c, "KE", owners_call);
        run(&mut c, "NEIGHBOUR.CAME").int();
        if end == "its owner" {
            run(&mut c, "LOCK.RELEASE k b ALL").int();
        }
        came(&mut c, end).nil();
        assert_eq!(waiters(&mut c, "k"), [""; 0]);
        is_well(&server);
    }
}

/// The rights of the client for which the call is made are asked for again when its turn comes.
#[test]
fn a_user_whose_rights_are_taken_away_is_not_granted_by_a_neighbours_call() {
    testbed::needs!(lets_modules_wait());
    let (server, mut c) = held();
    run(&mut c, "ACL SETUSER u on >p ~* +@all").okay();
    let mut user = server.connection_as("u", "p");
    call_later(&mut user, "KCE", "k b PX 600000 BLOCK 0");
    run(&mut c, "ACL SETUSER u -lock.acquire").okay();
    run(&mut c, "LOCK.RELEASE k a").int();
    came(&mut c, "the refusal").refused("NOPERM");
    cmd!(c, "LOCK.INFO", "k").nil();
    is_well(&server);
}

/// What a file says was judged when it was written; what another module says meanwhile was not.
#[test]
fn a_call_while_a_file_is_loaded_is_judged() {
    let (server, mut c) = beside("")
        .config("appendonly", "yes")
        .config("aof-use-rdb-preamble", "no")
        .started();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "SET text 1").okay();
    for line in [
        "LOCK.RELEASE k b",
        "LOCK.RELEASE k b ALL",
        "LOCK._APPLY k effect",
    ] {
        run(&mut c, &format!("NEIGHBOUR.ON set 1 E {line}")).okay();
        run(&mut c, "DEBUG LOADAOF").okay();
        assert_eq!(owner(&mut c), "a", "{line}");
    }
    is_well(&server);
}

/// Such a call has no connection that could poll.
#[test]
fn a_call_of_another_module_opens_and_polls_no_session() {
    let (server, mut c) = start();
    let session = run(&mut c, "LOCK.SESSION OPEN").int();
    for format in ["", "E", "!E", "CE", "SE", "3E"] {
        for words in [
            "LOCK.SESSION OPEN".to_owned(),
            format!("LOCK.SESSION POLL {session}"),
            format!("LOCK.SESSION POLL {session} BLOCK 100"),
        ] {
            let mut call = redis::cmd("NEIGHBOUR.CALL");
            call.arg(format).arg(testbed::words(&words));
            let refused = c.send(&call).reply();
            assert!(refused.is_err(), "{format} {words}: {refused:?}");
        }
    }
    assert_eq!(server.count("sessions"), 1);
    is_well(&server);
}

/// A listener takes the lock from a queued call whose grant it is told of.
#[test]
fn the_session_is_told_of_the_grant_before_its_loss() {
    let (server, mut c) = held();
    let mut session = Session::open(&server);
    assert_eq!(session.queue(&mut c, "k b"), 0);
    run(&mut c, "NEIGHBOUR.ON lock.acquire 1 E DEL k").okay();
    run(&mut c, "LOCK.RELEASE k a").int();
    let events = session.poll().events;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("1 granted k b "), "{events:?}");
    assert!(events[1].starts_with("2 lost k b "), "{events:?}");
    is_well(&server);
}

/// The reply to a command that the neighbour runs on a thread of its own.
#[track_caller]
fn on_a_thread(c: &mut Connection, words: &str) -> Value {
    let reply = run(c, &format!("NEIGHBOUR.THREAD E {words}"));
    assert_eq!(reply.text(), "LATER");
    came(c, words).value()
}

#[test]
fn a_lock_that_a_thread_takes_renews_and_gives_back_is_one_like_any() {
    let (server, mut c) = start();
    let grant = on_a_thread(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    assert_eq!(grant.owner, b"a");
    run(&mut c, "LOCK.ACQUIRE k b").nil();
    on_a_thread(&mut c, "LOCK.RENEW k a").grant();
    let [mut waiter] = wait_as(&server, ["b"]);
    assert_eq!(on_a_thread(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(waiter.granted().owner, b"b");
    assert_eq!(server.count("forced_removals"), 0);
    is_well(&server);
}

/// A flush frees values on another thread too, and is over some time.
#[test]
fn a_lock_that_a_thread_deletes_after_a_flush_counts_once() {
    let (server, mut c) = start();
    run(&mut c, "LOCK.ACQUIRE flushed a PX 600000").grant();
    run(&mut c, "FLUSHALL ASYNC").okay();
    let removals = || server.count("forced_removals");
    eventually(|| removals() == 1, "the flush to be counted");
    for (number, words) in [(2, "DEL k"), (3, "UNLINK k"), (4, "SET k v")] {
        run(&mut c, "DEL k").int();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        on_a_thread(&mut c, words);
        assert_eq!(removals(), number, "{words}");
    }
    is_well(&server);
}
