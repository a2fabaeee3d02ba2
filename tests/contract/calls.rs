//! `HOLDS`, and the plain forms of `LOCK.RENEW`, `LOCK.RELEASE` and `LOCK.FENCE`.

use crate::support::{HIGHEST_TOKEN, run, starts_lease, unchanged};
use testbed::{Expect, cmd, started};

#[test]
fn a_repeated_call_adds_no_second_hold() {
    let (_server, mut c) = started();
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
fn the_deadline_becomes_now_and_the_lease() {
    let (_server, mut c) = started();
    let grant = run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant();
    cmd!(c, "PEXPIRE", "k", 5_000).int();
    let renewed = starts_lease(&mut c, "k", 60_000, |c| run(c, "LOCK.RENEW k a"));
    assert_eq!(renewed.grant(), grant);
}

#[test]
fn each_call_gives_back_one_hold_and_the_last_frees_the_lock() {
    let (_server, mut c) = started();
    for _ in 0..3 {
        run(&mut c, "LOCK.ACQUIRE k a").grant();
    }
    for left in [2, 1] {
        assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), left);
        assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().holds, left);
    }
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(cmd!(c, "EXISTS", "k").int(), 0);
    run(&mut c, "LOCK.ACQUIRE k b").grant();
}

#[test]
fn without_a_token_it_tells_the_current_one_or_nil() {
    let (_server, mut c) = started();
    unchanged(&mut c, "k", |c| run(c, "LOCK.FENCE k")).nil();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    let told = unchanged(&mut c, "k", |c| run(c, "LOCK.FENCE k")).int();
    assert_eq!(told, token);
    run(&mut c, "LOCK.RELEASE k a").int();
    run(&mut c, "LOCK.FENCE k").nil();
}

#[test]
fn the_token_of_the_current_grant_passes_and_every_other_is_fenced() {
    let (_server, mut c) = started();
    let old = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    run(&mut c, "LOCK.RELEASE k a").int();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    let mut fence = |token: i64| unchanged(&mut c, "k", |c| cmd!(*c, "LOCK.FENCE", "k", token));
    fence(token).okay();
    for stale in [old, token - 1, token + 1, 1, HIGHEST_TOKEN] {
        fence(stale).refused("FENCED");
    }
}
