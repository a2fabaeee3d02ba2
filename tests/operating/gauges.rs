//! What `INFO lock` tells of this moment is so on every server, also after it has changed roles,
//! was started anew or flushed.

use crate::support::{COUNTERS, field, section};
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, run, started, wait};

/// `held`, `waiting`, `longest_queue`.
#[track_caller]
fn gauges(c: &mut Connection) -> [i64; 3] {
    let fields = section(c);
    ["held", "waiting", "longest_queue"].map(|name| fields[name])
}

/// Waits for the gauges: what is freed in the background is gone a moment later.
#[track_caller]
fn shows(c: &mut Connection, expected: [i64; 3], when: &str) {
    eventually(|| gauges(c) == expected, &format!("{expected:?} {when}"));
}

#[test]
fn waiting_calls_and_the_longest_queue() {
    let (server, mut c) = started();
    for key in ["k", "l"] {
        cmd!(c, "LOCK.ACQUIRE", key, "a", "PX", 600_000).grant();
    }
    let mut waiters = Vec::new();
    for (call, expected) in [
        ("k b BLOCK 0", [2, 1, 1]),
        ("l b BLOCK 0", [2, 2, 1]),
        ("l c BLOCK 0", [2, 3, 2]),
        ("l d BLOCK 0", [2, 4, 3]),
    ] {
        waiters.push(wait(&server, call));
        shows(&mut c, expected, call);
    }
    run(&mut c, "LOCK.RELEASE l a").int();
    shows(&mut c, [2, 3, 2], "after a hand-off");
    drop(waiters.pop());
    shows(&mut c, [2, 2, 1], "after a client has gone");
    run(&mut c, "FLUSHALL").okay();
    shows(&mut c, [2, 0, 0], "after a flush: both locks are handed on");
}

#[test]
fn a_replica_shows_its_locks_and_goes_on_as_a_primary() {
    let primary = Server::start();
    let replica = primary.replica();
    let (mut c, mut there) = (primary.connection(), replica.connection());
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "LOCK.ACQUIRE l a PX 600000").grant();
    let waiter = wait(&primary, "k b BLOCK 0");
    primary.wait_for_sync(&replica);
    shows(&mut there, [2, 0, 0], "on the replica");
    let token = field(&mut c, "last_token");
    assert_eq!(field(&mut there, "last_token"), token);

    run(&mut there, "REPLICAOF NO ONE").okay();
    replica.wait_for_role("master");
    let mut waiter_there = wait(&replica, "k b PX 600000 BLOCK 0");
    shows(&mut there, [2, 1, 1], "after the promotion");
    run(&mut there, "LOCK.RELEASE k a").int();
    waiter_there.receive().grant();
    let told = section(&mut there);
    assert_eq!(
        ["releases", "grants", "hand_offs"].map(|name| told[name]),
        [1; 3]
    );

    // The old primary follows the new one: its waits end, and what it held is not taken by force.
    let before = section(&mut c);
    cmd!(c, "REPLICAOF", "127.0.0.1", replica.port()).okay();
    replica.wait_for_sync(&primary);
    shows(&mut c, [2, 0, 0], "on the old primary");
    let after = section(&mut c);
    let moved: Vec<_> = COUNTERS
        .into_iter()
        .filter(|name| before[*name] != after[*name])
        .collect();
    assert_eq!(moved, ["waits_given_up"]);
    drop(waiter);
}

#[test]
fn a_restart_keeps_the_locks_and_begins_to_count_anew() {
    let mut server = Server::builder().config("appendonly", "yes").start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "LOCK.ACQUIRE gone a PX 600000").grant();
    run(&mut c, "LOCK.RELEASE gone a").int();
    run(&mut c, "LOCK.ACQUIRE k b").nil();
    let token = field(&mut c, "last_token");
    server.kill9();
    server.restart();
    let mut c = server.connection();
    shows(&mut c, [1, 0, 0], "after a restart");
    let told = section(&mut c);
    assert_eq!(told["last_token"], token);
    for name in COUNTERS.into_iter().chain(["hold_ms_max", "wait_ms_max"]) {
        assert_eq!(told[name], 0, "{name}");
    }
}
