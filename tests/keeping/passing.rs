//! The keeping passes to another connection, and ends: takeover, re-entry, `KEEP 0`, RELEASE, RAISE.

use crate::support::{Keeper, await_renewals, count, end_of_lease, kept_by, run, stands};
use testbed::{Expect, Server, cmd};

#[test]
fn another_connection_takes_over_and_the_first_is_closed() {
    let server = Server::start();
    let mut c = server.connection();
    for take_over in ["LOCK.ACQUIRE k a KEEP 2000", "LOCK.RENEW k a KEEP 2000"] {
        let mut first = Keeper::of(server.connection());
        let token = first.acquire("k a PX 60000 KEEP 60000").token;
        let mut second = Keeper::of(server.connection());
        assert_eq!(run(&mut second, take_over).grant().token, token);
        first.throw(&["PING"]);
        first.is_closed();
        assert_eq!(kept_by(&mut c)[0].0, second.id);
        // Its close has ended nothing.
        await_open_and_kept(&server, &mut second);
        stands(&mut c, token);
        run(&mut c, "LOCK.RELEASE k a ALL").int();
        second.is_answered();
    }
    assert_eq!(count(&server, "kept_closes"), 2);
}

fn await_open_and_kept(server: &Server, keeper: &mut Keeper) {
    keeper.renew("k a PX 1000 KEEP 60000");
    await_renewals(server, 2);
    keeper.is_answered();
}

/// A takeover by a connection that is closed at once leaves the lease as it is: nothing goes back.
#[test]
fn a_takeover_does_not_go_back() {
    let server = Server::start();
    let mut c = server.connection();
    let mut first = Keeper::on(&server, "k a PX 60000 KEEP 60000");
    let mut second = Keeper::of(server.connection());
    second.renew("k a KEEP 60000");
    drop(second);
    first.is_closed();
    testbed::eventually(|| kept_by(&mut c) == [(0, 0)], "nobody to keep it");
}

#[test]
fn a_keep_of_zero_from_elsewhere_closes_the_connection() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let token = keeper.acquire("k a PX 60000 KEEP 60000").token;
    run(&mut c, "LOCK.RENEW k a KEEP 0").grant();
    keeper.throw(&["PING"]);
    keeper.is_closed();
    stands(&mut c, token);
    assert_eq!(kept_by(&mut c), [(0, 0)]);
    assert!(run(&mut c, "PTTL k").int() > 50_000);
}

#[test]
fn its_own_keep_of_zero_ends_the_keeping_and_nothing_else() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 1500 KEEP 60000");
    keeper.acquire("j a PX 1000 KEEP 60000");
    keeper.renew("k a KEEP 0");
    assert_eq!((count(&server, "kept"), kept_by(&mut c)), (1, vec![(0, 0)]));
    let end = end_of_lease(&mut c);
    await_renewals(&server, 2);
    assert_eq!(end_of_lease(&mut c), end);
    keeper.is_answered();
}

/// In ACQUIRE it is as if it was not given.
#[test]
fn a_keep_of_zero_in_an_acquire_says_nothing() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    keeper.acquire("k a PX 60000 KEEP 0");
    assert_eq!(kept_by(&mut c), [(0, 0)]);
    keeper.acquire("k a PX 60000 KEEP 60000");
    run(&mut c, "LOCK.ACQUIRE k a KEEP 0").grant();
    keeper.acquire("k a KEEP 0");
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
    run(&mut c, "LOCK.ACQUIRE short a PX 10 KEEP 0").grant();
}

#[test]
fn plain_calls_from_anywhere_leave_the_keeping() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 60000");
    for words in [
        "LOCK.RENEW k a",
        "LOCK.ACQUIRE k a PX 60000",
        "LOCK.RELEASE k a",
        "LOCK.ACQUIRE k a HOLDS 1",
        "LOCK.RENEW k a PX 2000",
    ] {
        run(&mut c, words).value();
        assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)], "{words}");
        keeper.is_answered();
    }
    await_renewals(&server, 1);
    // The last release, from elsewhere too, ends it without a close.
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(count(&server, "kept"), 0);
    keeper.is_answered();
    assert_eq!(count(&server, "kept_closes"), 0);
    // The next grant is another.
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    assert_eq!(kept_by(&mut c), [(0, 0)]);
}

/// Of a waiting call too, that gets the lock in the release.
#[test]
fn a_release_that_hands_the_lock_over_ends_the_keeping() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 60000");
    let mut next = server.connection();
    testbed::post!(next, "LOCK.ACQUIRE", "k", "b", "PX", 60_000, "BLOCK", 0);
    testbed::eventually(|| testbed::waiters(&mut c, "k") == ["b"], "it to wait");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a ALL").int(), 0);
    testbed::Talk::receive(&mut next).grant();
    assert_eq!(kept_by(&mut c), [(0, 0)]);
    keeper.is_answered();
}

#[test]
fn a_reentry_takes_the_longer_silence_and_a_renewal_sets_it() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 5000");
    let mut silence = |keeper: &mut Keeper, words: &str| {
        run(keeper, words).grant();
        let [(id, silence)] = kept_by(&mut c)[..] else {
            panic!("one holder")
        };
        assert_eq!(id, keeper.id);
        silence
    };
    for (words, ms) in [
        ("LOCK.ACQUIRE k a KEEP 3000", 5000),
        ("LOCK.ACQUIRE k a KEEP 7000", 7000),
        ("LOCK.ACQUIRE k a", 7000),
        ("LOCK.RENEW k a KEEP 4000", 4000),
        ("LOCK.RENEW k a", 4000),
        ("LOCK.RENEW k a KEEP 6000", 6000),
    ] {
        assert_eq!(silence(&mut keeper, words), ms, "{words}");
    }
    // A takeover by an acquire takes the longer, by a renewal it sets it anew.
    let mut second = Keeper::of(server.connection());
    assert_eq!(silence(&mut second, "LOCK.ACQUIRE k a KEEP 2000"), 6000);
    keeper.is_closed();
    let mut third = Keeper::of(server.connection());
    assert_eq!(silence(&mut third, "LOCK.RENEW k a KEEP 2000"), 2000);
    second.is_closed();
    third.is_answered();
}

#[test]
fn a_raise_takes_the_keeping_along() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let token = keeper.acquire("k a PX 1500 KEEP 60000").token;
    let raised = token + 1000;
    cmd!(c, "LOCK.RENEW", "k", "a", "TOKEN", token, "RAISE", raised).grant();
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
    await_renewals(&server, 2);
    stands(&mut c, raised);
    run(&mut c, "DEL k").int();
    keeper.throw(&["PING"]);
    keeper.is_closed();
    // With KEEP in the same call.
    let mut keeper = Keeper::of(server.connection());
    let token = keeper.acquire("k a PX 1500").token;
    let raised = token + 1000;
    cmd!(
        *keeper,
        "LOCK.RENEW",
        "k",
        "a",
        "TOKEN",
        token,
        "RAISE",
        raised,
        "KEEP",
        60_000
    )
    .grant();
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
}

#[test]
fn a_call_that_is_refused_changes_no_keeping() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 60000");
    for (words, code) in [
        ("LOCK.RENEW k b KEEP 1000", "NOTOWNER"),
        ("LOCK.RENEW k a TOKEN 7 KEEP 1000", "FENCED"),
        ("LOCK.RENEW k a TOKEN 7 KEEP 0", "FENCED"),
        ("LOCK.ACQUIRE k a HOLDS 3 KEEP 1000", "NOTHELD"),
        ("LOCK.RENEW free a KEEP 1000", "NOTHELD"),
    ] {
        run(&mut c, words).refused(code);
        assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)], "{words}");
    }
    run(&mut c, "LOCK.ACQUIRE k b KEEP 1000").nil();
    assert_eq!(kept_by(&mut c), [(keeper.id, 60_000)]);
    keeper.is_answered();
    assert_eq!(count(&server, "kept"), 1);
}
