//! A full memory, and what is given back of it.

use crate::support::{lock_section, run, starts_lease, unchanged};
use testbed::{Expect, cmd, eventually, started};

#[test]
fn with_a_full_memory_nothing_is_acquired() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    run(&mut c, "CONFIG SET maxmemory 1").okay();
    for line in ["LOCK.ACQUIRE free a", "LOCK.ACQUIRE free * BLOCK 0"] {
        unchanged(&mut c, "free", |c| run(c, line)).refused("OOM");
    }
    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a HOLDS 1",
        "LOCK.ACQUIRE k b",
    ] {
        unchanged(&mut c, "k", |c| run(c, line)).refused("OOM");
    }
    run(&mut c, "CONFIG SET maxmemory 0").okay();
    run(&mut c, "LOCK.ACQUIRE free a").grant();
}

#[test]
fn with_a_full_memory_all_else_works() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    run(&mut c, "CONFIG SET maxmemory 1").okay();
    starts_lease(&mut c, "k", 70_000, |c| run(c, "LOCK.RENEW k a PX 70000")).grant();
    let raise = format!("LOCK.RENEW k a TOKEN {token} RAISE {token}");
    run(&mut c, &raise).grant();
    cmd!(c, "LOCK.FENCE", "k", token).okay();
    assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().holds, 2);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 1);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
}

#[test]
fn in_a_script_a_full_memory_refuses_the_same() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    run(&mut c, "CONFIG SET maxmemory 1").okay();
    let script = "return redis.call(ARGV[1], KEYS[1], 'a')";
    cmd!(c, "EVAL", script, 1, "free", "LOCK.ACQUIRE").refused("OOM");
    assert_eq!(cmd!(c, "EVAL", script, 1, "k", "LOCK.RELEASE").int(), 0);
}

#[test]
fn every_lock_that_goes_is_freed() {
    let (_server, mut c) = started();
    for gone in [
        "LOCK.RELEASE k a ALL",
        "DEL k",
        "UNLINK k",
        "PEXPIRE k 1",
        "SET k text",
        "FLUSHDB",
        "FLUSHALL ASYNC",
        "LOCK._APPLY k a 5 1 1 1",
    ] {
        for _ in 0..3 {
            run(&mut c, "LOCK.ACQUIRE k a").grant();
        }
        run(&mut c, "LOCK.RENEW k a PX 50000000").grant();
        assert_eq!(lock_section(&mut c, "lock_held"), 1);
        run(&mut c, gone).value();
        eventually(|| lock_section(&mut c, "lock_held") == 0, gone);
        run(&mut c, "DEL k").int();
    }
}

#[test]
fn a_thousand_locks_are_counted_and_freed() {
    let (_server, mut c) = started();
    for n in 0..1000 {
        cmd!(c, "LOCK.ACQUIRE", format!("k{n}"), "*").grant();
    }
    assert_eq!(lock_section(&mut c, "lock_held"), 1000);
    run(&mut c, "DEBUG RELOAD").okay();
    let freed = || lock_section(&mut c, "lock_held") == 1000;
    eventually(freed, "the old values to be freed");
    run(&mut c, "FLUSHALL ASYNC").okay();
    eventually(|| lock_section(&mut c, "lock_held") == 0, "all to be freed");
}
