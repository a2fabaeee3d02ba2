//! The server renews a grant when a third of its lease has passed.

use crate::support::{Keeper, await_renewals, end_of_lease, run, stands};
use redis::Connection;
use testbed::{Expect, Load, Server, effect, eventually};

/// How long after a third of its lease a grant may be renewed, beside what a busy machine adds.
const LATE_MS: i64 = 300;

/// In the version of an effect that replicas do not announce.
const QUIET: u8 = 0x80;

/// The next end of the lease of `k` after this one; demands that a renewal makes it when a third of a lease that is
/// so long has passed.
#[track_caller]
fn next_end(server: &Server, c: &mut Connection, before: i64, lease: i64) -> i64 {
    let load = Load::on(server);
    let mut end = before;
    eventually(
        || {
            end = end_of_lease(c);
            assert_ne!(end, -2, "the lock is free");
            end != before
        },
        "a renewal",
    );
    let latest = lease / 3 + LATE_MS + load.so_far_ms();
    assert!(
        (lease / 3..latest).contains(&(end - before)),
        "{}",
        end - before
    );
    end
}

#[test]
fn a_kept_grant_is_renewed_when_a_third_of_its_lease_has_passed() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let granted = keeper.acquire("k a PX 1500 KEEP 60000");
    let mut end = end_of_lease(&mut c);
    for _ in 0..3 {
        end = next_end(&server, &mut c, end, 1500);
    }
    stands(&mut c, granted.token);
    let info = run(&mut c, "LOCK.INFO k").lock_info();
    assert_eq!((info.lease_ms, info.holds), (1500, 1));
    keeper.is_answered();
}

/// The lease is the one that the grant remembers now, and the third begins with each change of it.
#[test]
fn the_third_is_of_the_lease_that_the_grant_remembers_now() {
    let server = Server::start();
    let mut c = server.connection();
    let _keeper = Keeper::on(&server, "k a PX 60000 KEEP 60000");
    let renewed = run(&mut c, "LOCK.RENEW k a PX 1200").grant();
    assert_eq!(renewed.lease, 1200);
    let end = end_of_lease(&mut c);
    next_end(&server, &mut c, end, 1200);
    // A re-entry lengthens it.
    run(&mut c, "LOCK.ACQUIRE k a PX 2400").grant();
    let end = end_of_lease(&mut c);
    next_end(&server, &mut c, end, 2400);
}

#[test]
fn replicas_and_the_append_only_file_have_the_renewals() {
    let primary = Server::builder().config("appendonly", "yes").start();
    let replica = primary.replica();
    let (mut c, mut copy) = (primary.connection(), replica.connection());
    let mut keeper = Keeper::of(primary.connection());
    let granted = keeper.acquire("k a PX 1500 KEEP 60000");
    await_renewals(&primary, 2);
    eventually(
        || end_of_lease(&mut c) == end_of_lease(&mut copy),
        "the same end of the lease on the replica",
    );
    stands(&mut c, granted.token);
    // What the file says last is the state of the last renewal.
    run(&mut c, "CONFIG SET appendfsync always").okay();
    await_renewals(&primary, 1);
    eventually(
        || {
            let end = end_of_lease(&mut c);
            let effects = primary.aof();
            let last = effects.last().expect("an effect");
            assert_eq!(last[0].to_ascii_uppercase(), b"LOCK._APPLY");
            // A renewal is marked as one that is not announced.
            let mut effect = last[2].clone();
            effect[0] &= !QUIET;
            effect::read(&effect).is_some_and(|said| said.deadline == end)
        },
        "the renewal in the file",
    );
    keeper.is_answered();
}

#[test]
fn a_grant_that_is_not_kept_is_not_renewed() {
    let server = Server::start();
    let mut c = server.connection();
    let _keeper = Keeper::on(&server, "kept a PX 1000 KEEP 60000");
    run(&mut c, "LOCK.ACQUIRE k a PX 1500").grant();
    let end = end_of_lease(&mut c);
    await_renewals(&server, 2);
    assert_eq!(end_of_lease(&mut c), end);
}
