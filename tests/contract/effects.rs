//! `LOCK._APPLY key effect` and `LOCK._CLOCK token`, called by an administrator: the state that they
//! carry is taken whole or not at all.

use crate::support::{HIGHEST_TOKEN, deadline, last_token, now_ms, run, state};
use redis::Connection;
use testbed::{Expect, LockInfo, cmd, effect, started};

fn info(c: &mut Connection) -> LockInfo {
    run(c, "LOCK.INFO k").lock_info()
}

#[test]
fn the_key_comes_to_hold_exactly_this_lock() {
    let (_server, mut c) = started();
    let end = now_ms() + 600_000;
    run(&mut c, &format!("LOCK._APPLY k me 77 3 60000 {end}")).okay();
    let told = info(&mut c);
    assert_eq!((told.token, told.holds, told.lease_ms), (77, 3, 60_000));
    assert_eq!(told.owner, b"me");
    assert_eq!(deadline(&mut c, "k"), end);
    run(&mut c, "LOCK._APPLY k me 77 3 60000 -1").okay();
    assert_eq!(deadline(&mut c, "k"), -1);
}

#[test]
fn it_takes_the_place_of_whatever_was_there() {
    let (_server, mut c) = started();
    for before in [
        "DEL k",
        "SET k text",
        "RPUSH k 1",
        "LOCK.ACQUIRE k b PX 60000",
        "LOCK.ACQUIRE k *",
    ] {
        run(&mut c, "DEL k").int();
        run(&mut c, before).value();
        run(&mut c, "LOCK._APPLY k a 5 2 1000 -1").okay();
        let told = info(&mut c);
        let found = (&told.owner[..], told.token, told.holds);
        assert_eq!(found, (&b"a"[..], 5, 2));
        assert_eq!(told.ttl_ms, -1, "after {before}");
    }
}

#[test]
fn it_may_be_applied_any_number_of_times() {
    let (_server, mut c) = started();
    let line = format!("LOCK._APPLY k a 5 2 60000 {}", now_ms() + 60_000);
    run(&mut c, &line).okay();
    let once = state(&mut c, "k");
    for _ in 0..3 {
        run(&mut c, &line).okay();
        assert_eq!(state(&mut c, "k"), once);
    }
    run(&mut c, "LOCK._CLOCK 9").okay();
    run(&mut c, "LOCK._CLOCK 9").okay();
    assert_eq!(last_token(&mut c), 9);
}

#[test]
fn arguments_of_a_later_version_are_passed_over() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK._APPLY k a 5 2 60000 -1 x 2 -9 *").okay();
    assert_eq!(info(&mut c).holds, 2);
    let lock = effect("a", 6, 2, 60_000, -1);
    cmd!(c, "LOCK._APPLY", "k", lock, b"\0\xff\r\n", "").okay();
    assert_eq!(info(&mut c).token, 6);
    run(&mut c, "LOCK._CLOCK 7 a b c").okay();
    assert_eq!(last_token(&mut c), 7);
}

#[test]
fn both_lift_the_clock_and_never_lower_it() {
    let (_server, mut c) = started();
    for (line, last) in [
        ("LOCK._CLOCK 10", 10),
        ("LOCK._APPLY k a 20 1 1000 -1", 20),
        ("LOCK._APPLY k a 15 1 1000 -1", 20),
        ("LOCK._CLOCK 5", 20),
        ("LOCK._CLOCK 9007199254740991", HIGHEST_TOKEN),
        ("LOCK._CLOCK 1", HIGHEST_TOKEN),
    ] {
        run(&mut c, line).okay();
        assert_eq!(last_token(&mut c), last, "after {line}");
    }
    assert_eq!(info(&mut c).token, 15);
}

#[test]
fn a_deadline_in_the_past_frees_the_lock_and_its_token_counts() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK._APPLY k a 20 1 1000 1000").okay();
    run(&mut c, "LOCK.INFO k").nil();
    run(&mut c, "LOCK.RENEW k a").refused("NOTHELD");
    assert_eq!(last_token(&mut c), 20);
}

#[test]
fn one_that_is_refused_lifts_no_clock() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK._CLOCK 10").okay();
    // It takes the share with this token out of a lock that is not there, and leaves one.
    let token = HIGHEST_TOKEN.to_le_bytes();
    let effect = [&[2][..], &[0; 8], &token[..7], &[2], &[1, 0, 0, 0]].concat();
    cmd!(c, "LOCK._APPLY", "k", effect).refused("ERR");
    assert_eq!(last_token(&mut c), 10);
}
