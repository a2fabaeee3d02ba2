//! `KEEP` of a call that waits: the keeping begins with the grant, and a grant that is given back is not kept.

use crate::support::{Keeper, at_once, await_renewals, count, kept_by, run, while_stopped};
use redis::Connection;
use testbed::{Expect, Kind, Server, Talk, eventually, line, waiters};

/// `k` is held by `b`, and a call with KEEP waits for it.
fn waits(words: &str) -> (Server, Connection, Keeper) {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k b PX 60000").grant();
    let mut keeper = Keeper::of(server.connection());
    keeper.post(&line(&format!("LOCK.ACQUIRE k a {words}")));
    eventually(|| waiters(&mut c, "k") == ["a"], "it to wait");
    (server, c, keeper)
}

#[test]
fn the_keeping_begins_with_the_grant() {
    let (server, mut c, mut keeper) = waits("PX 1000 BLOCK 0 KEEP 60000");
    assert_eq!(count(&server, "kept"), 0);
    assert_eq!(kept_by(&mut c), [(0, 0)]);
    run(&mut c, "LOCK.RELEASE k b").int();
    let granted = keeper.receive().grant();
    eventually(|| kept_by(&mut c) == [(keeper.id, 60_000)], "it to be kept");
    await_renewals(&server, 2);
    crate::support::stands(&mut c, granted.token);
    keeper.is_answered();
}

/// However the lock comes free.
#[test]
fn after_an_expiry_and_a_deletion_too() {
    for free in ["PEXPIRE k 100", "DEL k", "FLUSHALL", "RENAME k elsewhere"] {
        let (_server, mut c, mut keeper) = waits("PX 5000 BLOCK 0 KEEP 60000");
        run(&mut c, free).value();
        keeper.receive().grant();
        eventually(|| kept_by(&mut c) == [(keeper.id, 60_000)], free);
        run(&mut c, "DEL k").int();
        keeper.is_closed();
    }
}

/// A wait that ends without the lock keeps nothing.
#[test]
fn a_wait_in_vain_keeps_nothing() {
    let (server, mut c, mut keeper) = waits("PX 5000 BLOCK 1000 KEEP 60000");
    keeper.receive().nil();
    run(&mut c, "LOCK.RELEASE k b").int();
    assert_eq!(count(&server, "kept"), 0);
    keeper.is_answered();
}

/// The client has gone when the lock comes to it.
#[test]
fn a_grant_that_is_given_back_is_not_kept() {
    for _ in 0..5 {
        let (server, mut c, keeper) = waits("PX 60000 BLOCK 0 KEEP 60000");
        let mut next = server.connection();
        next.post(&line("LOCK.ACQUIRE k c PX 60000 BLOCK 0"));
        eventually(|| waiters(&mut c, "k") == ["a", "c"], "it to wait");
        while_stopped(&server, || {
            c.post(&line("LOCK.RELEASE k b"));
            drop(keeper);
        });
        assert_eq!(c.receive().int(), 0);
        assert_eq!(next.receive().grant().owner, b"c");
        assert_eq!(kept_by(&mut c), [(0, 0)]);
        assert_eq!(count(&server, "kept"), 0);
    }
}

/// A re-entry of a grant that another call of its owner got: its client is unblocked before it is told.
#[test]
fn a_re_entry_that_is_given_back_keeps_nothing() {
    let version = Server::version();
    if version.kind == Kind::Redis && !version.is_redis_from(7, 4) {
        println!("skipped: this server does not unblock a module's clients");
        return;
    }
    for how in ["ERROR", "TIMEOUT"] {
        for order in [&[1, 2][..], &[2, 1], &[0, 1, 2, 3]] {
            let (server, mut c, mut first) = waits("PX 1000 BLOCK 0");
            let mut second = Keeper::of(server.connection());
            second.post(&line("LOCK.ACQUIRE k a PX 1000 BLOCK 0 KEEP 60000"));
            eventually(|| waiters(&mut c, "k") == ["a", "a"], "it to wait");
            let unblock = format!("CLIENT UNBLOCK {} {how}", second.id);
            let lines = ["MULTI", "LOCK.RELEASE k b", &unblock, "EXEC"];
            let lines: Vec<_> = order.iter().map(|index| lines[*index]).collect();
            for reply in at_once(&mut c, &lines) {
                reply.value();
            }
            assert_eq!(first.receive().grant().holds, 1);
            let told = match second.next().expect("an answer") {
                Ok(redis::Value::Nil) => false,
                Ok(grant) => grant.grant().holds == 2,
                Err(refusal) => refusal.code() != "UNBLOCKED",
            };
            println!("{}: told {told}", lines.join(", "));
            if told {
                assert_eq!(kept_by(&mut c), [(second.id, 60_000)]);
                continue;
            }
            assert_eq!(kept_by(&mut c), [(0, 0)]);
            assert_eq!(count(&server, "kept"), 0);
            eventually(|| run(&mut c, "EXISTS k").int() == 0, "the lease to end");
            second.is_answered();
            assert_eq!(count(&server, "kept_renewals"), 0);
        }
    }
}

/// A grant that is lost before its reply could be sent: the connection is closed, or the client is never
/// told of a grant that it does not have.
#[test]
fn a_grant_that_is_lost_with_its_reply_closes() {
    let (server, mut c, mut keeper) = waits("PX 60000 BLOCK 0 KEEP 60000");
    let mut other = server.connection();
    while_stopped(&server, || {
        c.post(&line("LOCK.RELEASE k b"));
        other.post(&line("DEL k"));
    });
    assert_eq!(c.receive().int(), 0);
    let deleted = other.receive().int();
    assert_eq!(deleted, 1);
    let answers: Vec<_> = std::iter::from_fn(|| keeper.next()).collect();
    assert!(answers.len() <= 1, "{answers:?}");
    assert_eq!(count(&server, "kept"), 0);
}

/// In the same tick another connection takes over what is granted here.
#[test]
fn a_takeover_of_a_grant_whose_reply_is_not_sent() {
    let (server, mut c, mut keeper) = waits("PX 60000 BLOCK 0 KEEP 60000");
    let mut second = Keeper::of(server.connection());
    let replies = at_once(
        &mut second,
        &["LOCK.RELEASE k b", "LOCK.RENEW k a KEEP 30000"],
    );
    let [released, renewed] = replies.try_into().expect("two replies");
    assert_eq!(released.int(), 0);
    renewed.grant();
    // One of them keeps it, whoever came later, and the other is closed.
    eventually(|| count(&server, "kept_closes") == 1, "one to be closed");
    let by = kept_by(&mut c)[0].0;
    if by == keeper.id {
        keeper.receive().grant();
        keeper.is_answered();
        second.is_closed();
    } else {
        assert_eq!(by, second.id);
        second.is_answered();
    }
}

/// A re-entry that waits for nothing, with BLOCK.
#[test]
fn a_call_that_need_not_wait_keeps_at_once() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    keeper.acquire("k a PX 5000 BLOCK 0 KEEP 60000");
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
}

/// A connection that keeps one and waits for another.
#[test]
fn who_waits_on_a_keeper_loses_its_place_with_its_grant() {
    let (server, mut c, mut keeper) = waits("PX 5000 BLOCK 0 KEEP 60000");
    let mut second = Keeper::on(&server, "kept a PX 5000 KEEP 60000");
    second.post(&line("LOCK.ACQUIRE k c PX 5000 BLOCK 0 KEEP 60000"));
    eventually(|| waiters(&mut c, "k") == ["a", "c"], "it to wait");
    run(&mut c, "DEL kept").int();
    second.is_closed();
    eventually(|| waiters(&mut c, "k") == ["a"], "it to leave");
    run(&mut c, "LOCK.RELEASE k b").int();
    keeper.receive().grant();
}
