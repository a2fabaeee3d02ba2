//! The counters of waiting.

use crate::support::{moves, run, wait};
use redis::{Cmd, Connection};
use testbed::{Expect, Kind, Server, Talk, cmd, eventually, held};

#[test]
fn a_wait_that_begins_counts_nothing() {
    let (server, mut c) = held();
    let _waiter = moves(&mut c, &[], "a wait", |_| wait(&server, "k b BLOCK 0"));
}

#[test]
fn a_release_hands_the_lock_on() {
    let (server, mut c) = held();
    let mut waiter = wait(&server, "k b BLOCK 0");
    let counters = &["releases", "grants", "hand_offs"];
    moves(&mut c, counters, "a release", |c| {
        run(c, "LOCK.RELEASE k a").int();
        waiter.receive().grant();
    });
}

#[test]
fn the_calls_of_one_owner_are_one_grant_and_re_entries() {
    let (server, mut c) = held();
    let mut waiters = [(); 3].map(|()| wait(&server, "k b BLOCK 0"));
    let counters = &["releases", "grants", "hand_offs", "reentries", "reentries"];
    moves(&mut c, counters, "a release", |c| {
        run(c, "LOCK.RELEASE k a").int();
        for waiter in &mut waiters {
            waiter.receive().grant();
        }
    });
}

#[test]
fn a_wait_ends_by_its_time() {
    let (server, mut c) = held();
    let mut waiter = server.connection();
    moves(&mut c, &["wait_timeouts"], "a wait", |_| {
        run(&mut waiter, "LOCK.ACQUIRE k b BLOCK 5").nil();
    });
}

#[test]
fn a_wait_is_given_up() {
    let (server, mut c) = held();
    let id = |waiter: &mut Connection| cmd!(*waiter, "CLIENT", "ID").int();
    let version = Server::version();
    let unblocks = version.kind == Kind::Valkey || version.is_redis_from(7, 4);
    for how in ["call off", "close", "CLIENT KILL ID", "CLIENT UNBLOCK"] {
        if how == "CLIENT UNBLOCK" && !unblocks {
            continue;
        }
        let mut waiter = server.connection();
        let id = id(&mut waiter);
        waiter.post(Cmd::new().arg(&["LOCK.ACQUIRE", "k", "b", "BLOCK", "0"]));
        eventually(
            || !cmd!(c, "LOCK.WAITERS", "k").items().is_empty(),
            "the call to wait",
        );
        moves(&mut c, &["waits_given_up"], how, |c| match how {
            "call off" => assert_eq!(run(c, "LOCK.RELEASE k b ALL").int(), 0),
            "close" => drop(waiter),
            command => {
                run(c, &format!("{command} {id}")).value();
            }
        });
    }
}

#[test]
fn a_caller_that_is_gone_gives_its_grant_back() {
    let (server, mut c) = held();
    let mut gone = server.connection();
    let id = cmd!(gone, "CLIENT", "ID").int();
    gone.post(Cmd::new().arg(&["LOCK.ACQUIRE", "k", "b", "BLOCK", "0"]));
    eventually(
        || !cmd!(c, "LOCK.WAITERS", "k").items().is_empty(),
        "the call to wait",
    );
    let counters = &["releases", "grants", "hand_offs", "releases"];
    moves(&mut c, counters, "a release to a client that dies", |c| {
        let mut batch = Vec::new();
        for words in [
            &["LOCK.RELEASE", "k", "a"][..],
            &["CLIENT", "KILL", "ID", &id.to_string()],
        ] {
            batch.extend(Cmd::new().arg(words).get_packed_command());
        }
        c.send_packed_command(&batch).expect("a connection");
        assert_eq!(c.receive().int(), 0);
        assert_eq!(c.receive().int(), 1);
    });
}

#[test]
fn a_full_queue_rejects() {
    let (server, mut c) = held();
    run(&mut c, "CONFIG SET lock.max-waiters 1").okay();
    let _waiter = wait(&server, "k b BLOCK 0");
    moves(&mut c, &["max_waiters_rejections"], "one too many", |c| {
        run(c, "LOCK.ACQUIRE k c BLOCK 0").refused("MAXWAITERS");
    });
}
