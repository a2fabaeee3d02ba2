//! How long a wait lasts, and how soon a lock is handed over.

use redis::Connection;
use std::thread::sleep;
use std::time::Duration;
use testbed::state::unix_ms;
use testbed::{
    Expect, Load, Server, Talk, at_once, cmd, held, info, line, nobody_waits, run, server_cpu,
    started, timed, transaction, wait, wait_as,
};

/// How late a wait may end, beside what a busy machine adds.
const LATE: Duration = Duration::from_secs(1);

#[test]
fn a_wait_ends_with_nil_when_its_time_is_up() {
    let (server, mut c) = held();
    let mut waiting = server.connection();
    for wait_ms in [1, 30, 300] {
        let load = Load::on(&server);
        let (took, reply) = timed(|| cmd!(waiting, "LOCK.ACQUIRE", "k", "b", "BLOCK", wait_ms));
        reply.nil();
        let least = Duration::from_millis(wait_ms);
        // The clock that times the wait counts whole milliseconds.
        assert!(took + Duration::from_millis(1) >= least, "{took:?}");
        let most = least + LATE + load.so_far();
        assert!(took < most, "{took:?} for {least:?}");
    }
    nobody_waits(&server);
    assert_eq!(info(&mut c).owner, b"a");
}

#[test]
fn the_lease_starts_with_the_grant() {
    let (server, mut c) = held();
    let mut given = wait(&server, "k b PX 5000 BLOCK 0");
    let mut by_default = wait(&server, "k c BLOCK 0");
    sleep(Duration::from_millis(300));
    for (waiter, owner, lease) in [(&mut given, "a", 5000), (&mut by_default, "b", 30_000)] {
        let earliest = unix_ms() + lease;
        assert_eq!(cmd!(c, "LOCK.RELEASE", "k", owner).int(), 0);
        let latest = unix_ms() + lease;
        let grant = waiter.granted();
        assert_eq!((grant.lease, grant.holds), (lease, 1));
        let deadline = run(&mut c, "PEXPIRETIME k").int();
        assert!((earliest..=latest).contains(&deadline), "{deadline}");
        // The token is the time of the grant.
        let token_ms = grant.token / 1000;
        assert!((earliest..=latest).contains(&(token_ms + lease)));
    }
}

/// Shortens the lease of `k` by this, while nothing else is sent; from its end to the next grant's token, in
/// microseconds, but for what a busy machine has added.
fn late(server: &Server, c: &mut Connection, shorten: &str) -> i64 {
    run(c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut waiter] = wait_as(server, ["b"]);
    let load = Load::on(server);
    let end = transaction(c, &[shorten, "PEXPIRETIME k"]).remove(1).int();
    let grant = waiter.granted();
    let busy = i64::try_from(load.so_far().as_micros()).expect("a short time");
    run(c, "DEL k").int();
    let late = grant.token - end * 1000;
    assert!(late > 0, "before the lease had ended: {late}");
    (late - busy).max(0)
}

/// The median and the worst of so many hand-offs after this, while so many other locks are waited for.
fn hand_overs(shorten: &str, times: usize, others: usize) -> (i64, i64) {
    let (server, mut c) = started();
    let _others: Vec<_> = (0..others)
        .map(|n| {
            cmd!(c, "LOCK.ACQUIRE", format!("other{n}"), "a", "PX", 600_000).grant();
            let mut waiter = server.connection();
            waiter.post(&line(&format!("LOCK.ACQUIRE other{n} b BLOCK 0")));
            waiter
        })
        .collect();
    let late = (0..times).map(|_| late(&server, &mut c, shorten));
    let mut late: Vec<_> = late.collect();
    late.sort_unstable();
    let (median, worst) = (late[times / 2], late[times - 1]);
    println!("{shorten}, {others} others: median {median} us, worst {worst} us");
    (median, worst)
}

/// An administrator may shorten a lease, of which nobody tells a module.
#[test]
fn an_idle_server_hands_over_within_ten_milliseconds_of_the_end_of_a_lease() {
    for (shorten, times, others) in [("LOCK.RENEW k a PX 50", 30, 0), ("PEXPIRE k 50", 10, 20)] {
        let (median, _) = hand_overs(shorten, times, others);
        assert!(median < 10_000, "{shorten}: {median}");
    }
}

/// A few locks are looked at in each tick, so it takes many ticks until all have been.
#[test]
fn a_shortened_lease_among_many_locks_is_handed_over_soon_too() {
    let (_, worst) = hand_overs("PEXPIRE k 50", 10, 1000);
    assert!(worst < 1_000_000, "{worst}");
}

#[test]
fn a_renewed_lease_is_waited_for_without_work() {
    let (server, mut c) = held();
    let [mut first] = wait_as(&server, ["b"]);
    for _ in 0..5000 {
        run(&mut c, "LOCK.RENEW k a PX 600000").grant();
    }
    let before = server_cpu(server.pid());
    sleep(Duration::from_millis(500));
    let used = server_cpu(server.pid()).saturating_sub(before);
    println!("half a second with one waiter: {used:?} of CPU");
    assert!(used < Duration::from_millis(100), "{used:?}");
    run(&mut c, "LOCK.RELEASE k a").int();
    first.granted();
}

/// For the server's own commands time stands still in a transaction; who waits knows nothing of that.
#[test]
fn a_lease_begins_with_the_grant_also_at_the_end_of_a_long_transaction() {
    const LEASE: i64 = 600_000;
    let (server, mut c) = started();
    let mut at_the_end = |command: &str| {
        let began = unix_ms();
        at_once(&mut c, &["MULTI", "DEBUG SLEEP 1.2", command, "EXEC"]);
        let begins = run(&mut c, "PEXPIRETIME k").int() - LEASE;
        let took = begins - began;
        let due = 1200..=unix_ms() - began;
        assert!(due.contains(&took), "{command}: {took}");
    };
    let mut other = server.connection();
    run(&mut other, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut waiter] = wait_as(&server, ["b"]);
    at_the_end("LOCK.RELEASE k a");
    assert_eq!(waiter.granted().lease, LEASE);
    run(&mut other, "DEL k").int();
    at_the_end("LOCK.ACQUIRE k b PX 600000");
    at_the_end("LOCK.RENEW k b PX 600000");
}
