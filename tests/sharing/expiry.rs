//! The key's TTL, and what an administrator does to it.

use crate::holders::{enter, holder, holders, shared};
use redis::Connection;
use testbed::{Expect, eventually, owners, run, started, transaction, wait};

#[track_caller]
fn expiry(c: &mut Connection) -> i64 {
    run(c, "PEXPIRETIME k").int()
}

/// What is left of this lease lies here, give or take what a busy machine takes.
#[track_caller]
fn has_left(c: &mut Connection, owner: &str, about: i64) {
    let left = holder(c, owner).ttl_ms;
    let fits = (about - 20_000..=about).contains(&left);
    assert!(fits, "{owner} has {left} of {about} left");
}

#[test]
fn it_is_the_latest_end() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a SHARED PX 300000").grant();
    let first = expiry(&mut c);
    run(&mut c, "LOCK.ACQUIRE k b SHARED PX 100000").grant();
    assert_eq!(expiry(&mut c), first);
    run(&mut c, "LOCK.ACQUIRE k d SHARED PX 500000").grant();
    assert!(expiry(&mut c) >= first + 200_000);
    has_left(&mut c, "a", 300_000);
    has_left(&mut c, "b", 100_000);
    run(&mut c, "LOCK.RELEASE k d").int();
    assert_eq!(expiry(&mut c), first);
    run(&mut c, "LOCK.RENEW k a PX 50000").grant();
    assert!(expiry(&mut c) < first - 100_000);
    has_left(&mut c, "b", 100_000);
}

#[test]
fn persist_and_a_later_pexpire_lengthen_no_share() {
    for owners_of_k in [&["a"][..], &["a", "b"]] {
        let (_server, mut c) = started();
        let acquire = |owner| format!("LOCK.ACQUIRE k {owner} SHARED PX 150");
        let mut lines: Vec<_> = owners_of_k.iter().map(acquire).collect();
        lines.push("PERSIST k".to_owned());
        transaction(&mut c, &lines);
        let mut left = holders(&mut c).into_iter().map(|holder| holder.ttl_ms);
        assert!(left.all(|left| (0..=150).contains(&left)));
        eventually(|| owners(&mut c).is_empty(), "the leases to end");
        // The key outlives its shares; every command takes the lock as free.
        assert_eq!(run(&mut c, "EXISTS k").int(), 1);
        assert_eq!(run(&mut c, "PTTL k").int(), -1);
        run(&mut c, "LOCK.INFO k").nil();
        run(&mut c, "LOCK.FENCE k").nil();
        run(&mut c, "LOCK.FENCE k 5").refused("FENCED");
        run(&mut c, "LOCK.RENEW k a").refused("NOTHELD");
        run(&mut c, "LOCK.RELEASE k a").refused("NOTHELD");
        run(&mut c, "LOCK.ACQUIRE k a SHARED HOLDS 2").refused("NOTHELD");
        let grant = enter(&mut c, "a");
        assert_eq!((grant.holds, owners(&mut c)), (1, vec!["a".to_owned()]));
        has_left(&mut c, "a", 600_000);
    }
    let (_server, mut c, _) = shared(["a", "b"], "SHARED");
    run(&mut c, "PEXPIRE k 900000").int();
    for owner in ["a", "b"] {
        has_left(&mut c, owner, 600_000);
    }
}

#[test]
fn a_key_that_outlives_its_shares_goes_to_who_waits() {
    let (server, mut c) = started();
    enter(&mut c, "a LIMIT 2");
    let mut writer = wait(&server, "k b PX 600000 BLOCK 0");
    transaction(&mut c, &["LOCK.RENEW k a PX 50", "PERSIST k"]);
    writer.granted();
    assert_eq!(owners(&mut c), ["b"]);
    assert!(run(&mut c, "PTTL k").int() > 0);
}

#[test]
fn a_cut_is_for_all_and_the_next_change_makes_it_lasting() {
    let (server, mut c, _) = shared(["a", "b"], "SHARED");
    let replica = server.replica();
    run(&mut c, "PEXPIRE k 100000").int();
    for owner in ["a", "b"] {
        has_left(&mut c, owner, 100_000);
    }
    // No change has made it lasting: it can be taken back.
    run(&mut c, "PEXPIRE k 300000").int();
    has_left(&mut c, "a", 300_000);
    run(&mut c, "PERSIST k").int();
    has_left(&mut c, "a", 600_000);
    run(&mut c, "PEXPIRE k 100000").int();
    run(&mut c, "LOCK.RENEW k b PX 200000").grant();
    // The TTL is the latest end again; the cut of the other stays, whatever comes.
    has_left(&mut c, "b", 200_000);
    has_left(&mut c, "a", 100_000);
    let ttl = run(&mut c, "PTTL k").int();
    assert!((180_000..=200_000).contains(&ttl), "{ttl}");
    for words in ["PEXPIRE k 900000", "PERSIST k", "LOCK.RENEW k b"] {
        run(&mut c, words).value();
        has_left(&mut c, "a", 100_000);
    }
    // The next change has set it.
    assert!(run(&mut c, "PTTL k").int() > 0);
    server.wait_for_sync(&replica);
    assert_eq!(server.whole_state(), replica.whole_state());
}
