//! `LOCK.ACQUIRE … HOLDS n`: the call that can be repeated when its reply was lost.

use crate::support::{deadline, now_ms, run, starts_lease, unchanged};
use testbed::{Expect, Grant, Server, cmd};

#[test]
fn a_repeated_call_adds_no_second_hold() {
    let server = Server::start();
    let mut c = server.connection();
    for holds in 1..=4 {
        let line = format!("LOCK.ACQUIRE k a HOLDS {holds}");
        let grant = run(&mut c, &line).grant();
        assert_eq!(grant.holds, holds);
        for _ in 0..3 {
            assert_eq!(run(&mut c, &line).grant(), grant);
        }
    }
}

#[test]
fn an_owner_with_more_holds_than_it_wants_keeps_them() {
    let server = Server::start();
    let mut c = server.connection();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    for wanted in 1..=3 {
        let grant = cmd!(c, "LOCK.ACQUIRE", "k", "a", "HOLDS", wanted).grant();
        assert_eq!((grant.holds, grant.token), (3, token));
    }
}

#[test]
fn a_call_that_adds_no_hold_refreshes_the_lease_all_the_same() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 60000 HOLDS 1").grant();
    cmd!(c, "PEXPIRE", "k", 10_000).int();
    starts_lease(&mut c, "k", 60_000, |c| run(c, "LOCK.ACQUIRE k a HOLDS 1")).grant();

    let shorter = starts_lease(&mut c, "k", 60_000, |c| {
        run(c, "LOCK.ACQUIRE k a HOLDS 1 PX 9")
    });
    assert_eq!(shorter.grant().lease, 60_000);
    let longer = starts_lease(&mut c, "k", 80_000, |c| {
        run(c, "LOCK.ACQUIRE k a HOLDS 1 PX 80000")
    });
    assert_eq!(longer.grant().lease, 80_000);

    let far = now_ms() + 900_000;
    cmd!(c, "PEXPIREAT", "k", far).int();
    run(&mut c, "LOCK.ACQUIRE k a HOLDS 1").grant();
    assert_eq!(deadline(&mut c, "k"), far);
}

#[test]
fn holds_that_the_caller_counted_on_and_lost_are_told_at_once() {
    let server = Server::start();
    let mut c = server.connection();
    for block in ["", "BLOCK 0", "BLOCK 60000"] {
        let line = |owner, holds| format!("LOCK.ACQUIRE k {owner} HOLDS {holds} {block}");
        for holds in ["2", "3", "2147483647"] {
            unchanged(&mut c, "k", |c| run(c, &line("a", holds))).refused("NOTHELD");
        }
        run(&mut c, "LOCK.ACQUIRE k a").grant();
        for holds in ["3", "4", "2147483647"] {
            unchanged(&mut c, "k", |c| run(c, &line("a", holds))).refused("NOTHELD");
        }
        for holds in ["2", "3", "2147483647"] {
            unchanged(&mut c, "k", |c| run(c, &line("b", holds))).refused("NOTOWNER");
        }
        cmd!(c, "DEL", "k").int();
    }
}

#[test]
fn one_hold_of_a_lock_that_is_held_by_another_is_an_ordinary_acquire() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    unchanged(&mut c, "k", |c| run(c, "LOCK.ACQUIRE k b HOLDS 1")).nil();
    unchanged(&mut c, "k", |c| run(c, "LOCK.ACQUIRE k b HOLDS 1 BLOCK 1")).nil();
}

#[test]
fn holds_and_token_together_bind_the_repeatable_call_to_its_grant() {
    let server = Server::start();
    let mut c = server.connection();
    let first = run(&mut c, "LOCK.ACQUIRE k a HOLDS 1").grant();
    let token = first.token;
    let second = Grant { holds: 2, ..first };
    for _ in 0..2 {
        let line = format!("LOCK.ACQUIRE k a HOLDS 2 TOKEN {token}");
        assert_eq!(run(&mut c, &line).grant(), second);
    }
    let kept = cmd!(c, "LOCK.ACQUIRE", "k", "a", "HOLDS", 1, "TOKEN", token);
    assert_eq!(kept.grant(), second);

    cmd!(c, "DEL", "k").int();
    let fresh = |c: &mut _| cmd!(*c, "LOCK.ACQUIRE", "k", "a", "HOLDS", 1, "TOKEN", token);
    unchanged(&mut c, "k", fresh).refused("NOTHELD");
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    unchanged(&mut c, "k", fresh).refused("FENCED");
}

#[test]
fn the_hold_count_stops_at_its_limit() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK._APPLY k a 1 2147483646 60000 -1").okay();
    let last = run(&mut c, "LOCK.ACQUIRE k a HOLDS 2147483647").grant();
    assert_eq!(last.holds, 2_147_483_647);

    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a TOKEN 1",
        "LOCK.ACQUIRE k a PX 900000",
    ] {
        let error = unchanged(&mut c, "k", |c| run(c, line)).refused("ERR");
        assert!(error.contains("2147483647"), "{error}");
    }
    assert_eq!(
        run(&mut c, "LOCK.ACQUIRE k a HOLDS 2147483647").grant(),
        last
    );
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 2_147_483_646);
    assert_eq!(run(&mut c, "LOCK.ACQUIRE k a").grant(), last);
}
