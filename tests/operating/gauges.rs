//! What `INFO lock` tells of this moment is so on every server, also after it has changed roles, was started anew or
//! flushed; and how long locks are held and waited for.

use crate::support::{COUNTERS, field, section};
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, held, run, started, wait};

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
    let moved = ["releases", "grants", "hand_offs"].map(|name| told[name]);
    assert_eq!(moved, [1; 3]);

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
    let (mut server, mut c) = Server::builder().config("appendonly", "yes").held();
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

/// p50, p99 and MAX.
#[track_caller]
fn times(c: &mut Connection, what: &str) -> [i64; 3] {
    let fields = section(c);
    ["p50", "p99", "max"].map(|part| fields[&format!("{what}_ms_{part}")])
}

/// Waits until the grant has stood so long.
#[track_caller]
fn hold(c: &mut Connection, key: &str, ms: i64) {
    let mut held_ms = || cmd!(*c, "LOCK.INFO", key).lock_info().held_ms;
    eventually(|| held_ms() >= ms, "some time to pass");
}

#[test]
fn a_hold_is_recorded_when_the_grant_ends() {
    let (_server, mut c) = held();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    hold(&mut c, "k", 40);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(times(&mut c, "hold"), [0; 3], "a hold is left");
    let held_ms = run(&mut c, "LOCK.INFO k").lock_info().held_ms;
    run(&mut c, "LOCK.RELEASE k a").int();
    let [half, most, longest] = times(&mut c, "hold");
    assert!(longest >= held_ms && longest < held_ms + 5000, "{longest}");
    assert_eq!((half, most), (longest, longest), "of one");
    // Many short ones: half of the times are short, the longest stays.
    for _ in 0..150 {
        run(&mut c, "LOCK.ACQUIRE k a").grant();
        run(&mut c, "LOCK.RELEASE k a").int();
    }
    let [half, most, still] = times(&mut c, "hold");
    assert!(half < held_ms && half <= most && most <= still);
    assert_eq!(still, longest);
    assert_eq!(times(&mut c, "wait"), [0; 3], "nobody waited");
}

#[test]
fn a_wait_is_recorded_however_it_ends() {
    for (end, line) in [
        ("granted", "LOCK.RELEASE k a"),
        ("given up", "LOCK.RELEASE k b ALL"),
        ("time-out", ""),
    ] {
        let (server, mut c) = held();
        if line.is_empty() {
            let mut waiter = server.connection();
            run(&mut waiter, "LOCK.ACQUIRE k b BLOCK 30").nil();
        } else {
            let mut waiter = wait(&server, "k b BLOCK 0");
            let so_far = |c: &mut Connection| {
                let queue = run(c, "LOCK.WAITERS k").items();
                queue[0].clone().fields()["waited-ms"].clone().int()
            };
            eventually(|| so_far(&mut c) >= 30, "a long wait");
            assert_eq!(times(&mut c, "wait"), [0; 3], "it continues");
            run(&mut c, line).int();
            waiter.receive().value();
        }
        let [half, most, longest] = times(&mut c, "wait");
        assert!((30..5000).contains(&longest), "{end}: {longest}");
        assert_eq!((half, most), (longest, longest), "{end}");
    }
}
