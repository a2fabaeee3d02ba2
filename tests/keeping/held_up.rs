//! While nothing may be written nothing is renewed: afterwards at once, and where less than a third of the
//! lease is left, the connection is closed.

use crate::support::{Keeper, count, end_of_lease, run};
use redis::Connection;
use std::thread::sleep;
use std::time::Duration;
use testbed::state::unix_ms;
use testbed::{Expect, Load, Server, Talk, cmd, eventually, line};

const LEASE_MS: i64 = 6000;
const GRANT: &str = "k a PX 6000 KEEP 60000";
/// How late a close may be, beside what a busy machine adds.
const LATE_MS: i64 = 600;
/// The server's clock is looked up now and then.
const EARLY_MS: i64 = 5;

/// Demands that the connection is closed when a third of a lease with this end is left.
#[track_caller]
fn closes_with_a_third_left(server: &Server, keeper: &mut Keeper, end: i64) {
    let load = Load::on(server);
    keeper.is_closed();
    let left = end - unix_ms();
    let third = LEASE_MS / 3;
    let least = third - LATE_MS - load.so_far_ms();
    assert!((least..=third + EARLY_MS).contains(&left), "{left} ms left");
}

/// Holds renewals up for longer than a lease: the connection is closed when less than a third of it is left,
/// and not before.
#[track_caller]
fn closes_when_a_third_is_left(server: &Server, hold_up: impl FnOnce(&mut Connection)) {
    let mut c = server.connection();
    let mut keeper = Keeper::on(server, GRANT);
    let mut other = Keeper::on(server, "long a PX 600000 KEEP 60000");
    hold_up(&mut c);
    let end = end_of_lease(&mut c);
    closes_with_a_third_left(server, &mut keeper, end);
    assert_eq!(end_of_lease(&mut c), end, "renewed");
    assert_eq!(count(server, "kept_closes"), 1);
    // One with a long lease is not in a hurry. (A PING is refused with MISCONF.)
    assert_eq!(cmd!(*other, "ECHO", "x").text(), "x");
}

/// Holds renewals up for a moment in which one was due: it comes at once afterwards.
#[track_caller]
fn renews_at_once_after(
    server: &Server,
    hold_up: impl FnOnce(&mut Connection),
    end_it: impl FnOnce(&mut Connection),
) {
    let mut c = server.connection();
    let mut keeper = Keeper::on(server, GRANT);
    hold_up(&mut c);
    let end = end_of_lease(&mut c);
    let third = u64::try_from(LEASE_MS / 3).expect("positive");
    sleep(Duration::from_millis(third + 300));
    assert_eq!(end_of_lease(&mut c), end, "renewed");
    let load = Load::on(server);
    let ends = unix_ms();
    end_it(&mut c);
    let latest = unix_ms() + 400;
    eventually(|| end_of_lease(&mut c) != end, "the renewal");
    let renewed = end_of_lease(&mut c) - LEASE_MS;
    let latest = latest + load.so_far_ms();
    assert!(
        (ends - EARLY_MS..latest).contains(&renewed),
        "{ends}, {renewed}, {latest}"
    );
    keeper.is_answered();
    assert_eq!(count(server, "kept_closes"), 0);
}

#[test]
fn a_long_pause_of_writes_closes() {
    closes_when_a_third_is_left(&Server::start(), |c| {
        run(c, "CLIENT PAUSE 60000 WRITE").okay();
    });
}

/// It is closed without a word of its own: in such a pause nobody is answered.
#[test]
fn a_long_pause_of_everything_closes() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, GRANT);
    let end = end_of_lease(&mut c);
    run(&mut c, "CLIENT PAUSE 20000 ALL").okay();
    keeper.throw(&["PING"]);
    closes_with_a_third_left(&server, &mut keeper, end);
}

#[test]
fn after_a_short_pause_it_is_renewed_at_once() {
    renews_at_once_after(
        &Server::start(),
        |c| run(c, "CLIENT PAUSE 60000 WRITE").okay(),
        |c| run(c, "CLIENT UNPAUSE").okay(),
    );
}

/// The pause ends by itself.
#[test]
fn after_a_pause_that_ends_by_itself_it_is_renewed_at_once() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, GRANT);
    let end = end_of_lease(&mut c);
    let load = Load::on(&server);
    let paused = unix_ms();
    run(&mut c, "CLIENT PAUSE 2600 WRITE").okay();
    eventually(|| end_of_lease(&mut c) != end, "the renewal");
    let renewed = end_of_lease(&mut c) - LEASE_MS - paused;
    let latest = 3000 + load.so_far_ms();
    assert!((2590..latest).contains(&renewed), "{renewed}");
    keeper.is_answered();
}

#[test]
fn too_few_replicas_close() {
    closes_when_a_third_is_left(&Server::start(), |c| {
        run(c, "CONFIG SET min-replicas-to-write 1").okay();
    });
}

#[test]
fn after_too_few_replicas_it_is_renewed_at_once() {
    renews_at_once_after(
        &Server::start(),
        |c| run(c, "CONFIG SET min-replicas-to-write 1").okay(),
        |c| run(c, "CONFIG SET min-replicas-to-write 0").okay(),
    );
}

#[test]
fn a_disk_that_cannot_be_written_closes() {
    let server = Server::builder().config("save", "3600 1").start();
    closes_when_a_third_is_left(&server, |c| {
        server.fail_to_save();
        run(c, "LOCK.RENEW k a").refused("MISCONF");
    });
}

#[test]
fn when_the_disk_can_be_written_again_it_is_renewed_at_once() {
    let server = Server::builder().config("save", "3600 1").start();
    renews_at_once_after(&server, |_| server.fail_to_save(), |_| server.save_again());
}

/// A primary with a replica that is stopped: a failover does not come to its end.
fn with_stopped_replica() -> (Server, Server) {
    let primary = Server::start();
    let replica = primary.replica();
    replica.signal("STOP");
    (primary, replica)
}

#[test]
fn a_failover_that_hangs_closes() {
    let (primary, _replica) = with_stopped_replica();
    closes_when_a_third_is_left(&primary, |c| cmd!(*c, "FAILOVER").okay());
}

#[test]
fn when_a_failover_is_aborted_it_is_renewed_at_once() {
    let (primary, _replica) = with_stopped_replica();
    renews_at_once_after(
        &primary,
        |c| cmd!(*c, "FAILOVER").okay(),
        |c| cmd!(*c, "FAILOVER", "ABORT").okay(),
    );
}

/// A full memory holds no renewal up.
#[test]
fn a_full_memory_holds_nothing_up() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 1000 KEEP 60000");
    run(&mut c, "CONFIG SET maxmemory 1").okay();
    run(&mut c, "LOCK.ACQUIRE j a").refused("OOM");
    crate::support::await_renewals(&server, 3);
    keeper.is_answered();
}

/// What was asked for before a pause is done behind it: the thief comes too late.
#[test]
fn a_command_that_waited_for_the_end_of_a_pause_finds_it_renewed() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, GRANT);
    run(&mut c, "CLIENT PAUSE 2600 WRITE").okay();
    let mut thief = server.connection();
    thief.post(&line("LOCK.ACQUIRE k thief PX 60000 BLOCK 3800"));
    thief.receive().nil();
    keeper.is_answered();
}
