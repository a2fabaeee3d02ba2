//! How grants end that nobody gives back: their lease is over, or they are taken away.

use crate::support::{COUNTERS, field, moves, section};
use redis::Connection;
use testbed::{Expect, Server, cmd, eventually, held, run, started};

#[test]
fn the_end_of_a_lease_is_an_expiration() {
    let (_server, mut c) = started();
    for database in [0, 3] {
        cmd!(c, "SELECT", database).okay();
        moves(&mut c, &["grants", "expirations"], "a lease over", |c| {
            run(c, "LOCK.ACQUIRE k a PX 1").grant();
        });
    }
    // Found by a command, not by the server's own search.
    run(&mut c, "DEBUG SET-ACTIVE-EXPIRE 0").okay();
    for finder in ["EXISTS k", "DEL k", "LOCK.RENEW k a", "SET k v"] {
        run(&mut c, "DEL k").int();
        run(&mut c, "LOCK.ACQUIRE k a PX 1").grant();
        let before = section(&mut c);
        let deadline = testbed::state::unix_ms() + 3;
        eventually(|| testbed::state::unix_ms() > deadline, "the lease to end");
        let _ = run(&mut c, finder);
        let now = section(&mut c);
        let moved = |name: &str| now[name] - before[name];
        let moved = ["expirations", "forced_removals"].map(moved);
        assert_eq!(moved, [1, 0], "{finder}");
    }
}

#[test]
fn whoever_takes_a_held_lock_away_forces_it() {
    let (_server, mut c) = started();
    for line in [
        "DEL k",
        "UNLINK k",
        "SET k v",
        "PEXPIRE k -1",
        "RENAME k other",
        "MOVE k 5",
        "FLUSHDB",
        "FLUSHALL",
        "FLUSHALL ASYNC",
        "FLUSHDB ASYNC",
        "EVAL return{redis.call('DEL','k')} 0",
    ] {
        // What an earlier line has put elsewhere is gone, and counted, before the next one begins.
        run(&mut c, "FLUSHALL SYNC").okay();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        moves(&mut c, &["forced_removals"], line, |c| {
            run(c, line).value();
        });
        moves(&mut c, &[], "nothing left to take", |c| {
            let _ = run(c, "DEL k");
        });
    }
}

/// What is put in the place of a lock that was taken away expires for itself.
#[test]
fn another_key_of_the_name_that_expires_later_is_no_lock() {
    let (_server, mut c) = started();
    for taken in ["DEL k", "UNLINK k", "RENAME k j"] {
        moves(&mut c, &["grants", "forced_removals"], taken, |c| {
            run(c, "LOCK.ACQUIRE k a PX 600000").grant();
            run(c, taken).value();
            run(c, "SET k v PX 10").okay();
            eventually(|| run(c, "EXISTS k").int() == 0, "it to expire");
        });
        run(&mut c, "FLUSHALL").okay();
    }
}

#[test]
fn a_flush_counts_every_lock_and_no_other_key() {
    let (_server, mut c) = started();
    for flush in ["FLUSHALL SYNC", "FLUSHALL ASYNC"] {
        for number in 0..300 {
            cmd!(c, "LOCK.ACQUIRE", format!("k{number}"), "a").grant();
            cmd!(c, "SET", format!("text{number}"), "v").okay();
        }
        let before = field(&mut c, "forced_removals");
        run(&mut c, flush).okay();
        let mut counted = || field(&mut c, "forced_removals") - before;
        eventually(|| counted() == 300, "all of them to be counted");
        assert_eq!(field(&mut c, "held"), 0);
    }
    moves(&mut c, &[], "a flush of other keys", |c| {
        cmd!(*c, "SET", "text", "v").okay();
        run(c, "FLUSHALL").okay();
    });
}

#[test]
fn an_eviction_is_forced() {
    let (_server, mut c) = held();
    run(&mut c, "CONFIG SET maxmemory-policy allkeys-lru").okay();
    moves(&mut c, &["forced_removals"], "an eviction", |c| {
        run(c, "CONFIG SET maxmemory 1").okay();
        let mut is_evicted = || {
            let _ = run(c, "SET text v");
            field(c, "held") == 0
        };
        eventually(&mut is_evicted, "the lock to be evicted");
    });
}

#[test]
fn a_replica_and_a_file_that_is_loaded_count_nothing() {
    let (mut server, mut c) = Server::builder().config("appendonly", "yes").started();
    let replica = server.replica();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "DEL k").int();
    run(&mut c, "LOCK.ACQUIRE k a PX 1").grant();
    eventually(|| field(&mut c, "expirations") == 1, "the lease to end");
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "FLUSHALL").okay();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    server.wait_for_sync(&replica);
    let mut there = replica.connection();
    // Another thread frees what is flushed.
    eventually(|| replica.count("held") == 1, "one lock to be held there");
    counts_nothing(&mut there);
    drop(c);
    server.kill9();
    server.restart();
    let mut c = server.connection();
    eventually(|| field(&mut c, "held") == 1, "one lock to be held");
    counts_nothing(&mut c);
}

#[track_caller]
fn counts_nothing(c: &mut Connection) {
    let counts = section(c);
    for counter in COUNTERS {
        assert_eq!(counts[counter], 0, "{counter}");
    }
}
