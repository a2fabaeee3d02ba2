//! Shares are kept as exclusive locks are, each by its own connection.

use crate::support::{Keeper, await_renewals, count, kept_by, run, while_stopped};
use std::thread::sleep;
use std::time::Duration;
use testbed::{Expect, Server, Talk, cmd, eventually, line};

/// The owners who hold `k`.
fn holders(server: &Server) -> Vec<String> {
    let holders = cmd!(server.connection(), "LOCK.HOLDERS", "k").items();
    let owner = |holder: redis::Value| holder.fields()["owner"].clone().text();
    holders.into_iter().map(owner).collect()
}

#[test]
fn each_share_is_renewed_for_its_own_connection() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut c = primary.connection();
    let mut first = Keeper::on(&primary, "k a LIMIT 5 PX 1200 KEEP 60000");
    let mut second = Keeper::on(&primary, "k b LIMIT 5 PX 1500 KEEP 60000");
    run(&mut c, "LOCK.ACQUIRE k c LIMIT 5 PX 1500").grant();
    await_renewals(&primary, 8);
    eventually(|| holders(&primary) == ["a", "b"], "the third to end");
    primary.wait_for_sync(&replica);
    assert_eq!(holders(&replica), ["a", "b"]);
    first.is_answered();
    second.is_answered();
    // One closes, and its share alone ends.
    drop(first);
    eventually(|| holders(&primary) == ["b"], "its lease to end");
    await_renewals(&primary, 2);
    assert_eq!(kept_by(&mut c), [(second.id, 60_000)]);
    second.is_answered();
}

#[test]
fn a_share_that_is_put_out_closes_nothing_and_one_that_ends_does() {
    let server = Server::start();
    let mut c = server.connection();
    let mut first = Keeper::on(&server, "k a SHARED PX 60000 KEEP 60000");
    let mut second = Keeper::on(&server, "k b SHARED PX 60000 KEEP 60000");
    // A release in its name, from elsewhere: no news.
    assert_eq!(run(&mut c, "LOCK.RELEASE k a ALL").int(), 0);
    first.is_answered();
    assert_eq!(count(&server, "kept"), 1);
    // The key goes: all of them hear.
    let mut third = Keeper::on(&server, "k c SHARED PX 60000 KEEP 60000");
    run(&mut c, "DEL k").int();
    for keeper in [&mut second, &mut third] {
        keeper.throw(&["PING"]);
        keeper.is_closed();
    }
    first.is_answered();
}

/// A cut by hand ends them all.
#[test]
fn a_cut_by_hand_ends_every_share_before_its_renewal() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keepers = ["a", "b"]
        .map(|owner| Keeper::on(&server, &format!("k {owner} SHARED PX 60000 KEEP 60000")));
    run(&mut c, "PEXPIRE k 300").int();
    for keeper in &mut keepers {
        keeper.is_closed();
    }
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
}

/// A cut that a change has made lasting.
#[test]
fn a_cut_that_was_made_lasting_ends_shares_that_are_not_renewed_before() {
    let server = Server::start();
    let mut c = server.connection();
    let mut first = Keeper::on(&server, "k a SHARED PX 60000 KEEP 60000");
    run(&mut c, "PEXPIRE k 1500").int();
    let mut second = Keeper::on(&server, "k b SHARED PX 60000 KEEP 60000");
    first.is_closed();
    second.is_answered();
    assert_eq!(holders(&server), ["b"]);
}

/// The lock lives on: the share that ends goes to the next, after its connection is closed.
#[test]
fn a_share_that_ends_in_a_stall_closes_before_its_place_is_taken() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k x LIMIT 2 PX 60000").grant();
    let mut keeper = Keeper::on(&server, "k a LIMIT 2 PX 1000 KEEP 60000");
    let mut waiting = server.connection();
    waiting.post(&line("LOCK.ACQUIRE k w LIMIT 2 PX 60000 BLOCK 0"));
    eventually(|| testbed::waiters(&mut c, "k") == ["w"], "it to wait");
    let mut thief = server.connection();
    while_stopped(&server, || {
        sleep(Duration::from_millis(1300));
        thief.post(&line("LOCK.ACQUIRE k t LIMIT 2"));
        keeper.throw(&["PING"]);
    });
    waiting.receive().grant();
    thief.receive().nil();
    keeper.is_closed();
    assert_eq!(holders(&server), ["x", "w"]);
}

#[test]
fn a_writer_that_becomes_a_reader_stays_kept() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 1200 KEEP 60000");
    let mut readers = server.connection();
    readers.post(&line("LOCK.ACQUIRE k r SHARED PX 60000 BLOCK 0"));
    eventually(|| testbed::waiters(&mut c, "k") == ["r"], "it to wait");
    run(&mut c, "LOCK.RENEW k a SHARED").grant();
    readers.receive().grant();
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000), (0, 0)]);
    await_renewals(&server, 3);
    assert_eq!(holders(&server), ["a", "r"]);
    keeper.is_answered();
    // And back.
    run(&mut c, "LOCK.RELEASE k r").int();
    keeper.acquire("k a");
    await_renewals(&server, 2);
    keeper.is_answered();
}

/// One connection keeps many shares of one lock: each permit has an owner of its own.
#[test]
fn one_connection_keeps_many_shares_of_a_lock() {
    let server = Server::start();
    let mut keeper = Keeper::of(server.connection());
    for n in 0..50 {
        keeper.acquire(&format!("k o{n} LIMIT 50 PX 1500 KEEP 60000"));
    }
    await_renewals(&server, 100);
    assert_eq!((count(&server, "kept"), holders(&server).len()), (50, 50));
    keeper.is_answered();
}
