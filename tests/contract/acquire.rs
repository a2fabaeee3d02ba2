//! `LOCK.ACQUIRE` without its `HOLDS`: the new grant, re-entry, and the owner `*`.

use crate::support::{TEN_YEARS_MS, run, starts_lease};
use std::collections::HashSet;
use testbed::{Expect, Grant, cmd, started};

#[test]
fn a_free_lock_is_granted_with_one_hold_and_the_default_lease() {
    let (_server, mut c) = started();
    let grant = starts_lease(&mut c, "k", 30_000, |c| run(c, "LOCK.ACQUIRE k a")).grant();
    let token = cmd!(c, "LOCK.FENCE", "k").int();
    let expected = Grant {
        token,
        owner: b"a".to_vec(),
        holds: 1,
        lease: 30_000,
        limit: None,
    };
    assert_eq!(grant, expected);
    assert_eq!(cmd!(c, "EXISTS", "k").int(), 1);
}

#[test]
fn the_lease_of_a_new_grant_is_told_in_milliseconds_or_seconds() {
    let (_server, mut c) = started();
    for (lease, ms) in [
        ("PX 1234", 1234),
        ("EX 7", 7000),
        ("PX 315360000000", TEN_YEARS_MS),
        ("EX 315360000", TEN_YEARS_MS),
    ] {
        let line = format!("LOCK.ACQUIRE k a {lease}");
        let grant = starts_lease(&mut c, "k", ms, |c| run(c, &line)).grant();
        assert_eq!(grant.lease, ms);
        cmd!(c, "DEL", "k").int();
    }
}

#[test]
fn a_star_asks_for_a_fresh_random_owner() {
    let (_server, mut c) = started();
    let owners: HashSet<_> = (0..100)
        .map(|n| {
            let owner = cmd!(c, "LOCK.ACQUIRE", format!("k{n}"), "*").grant().owner;
            String::from_utf8(owner).expect("text")
        })
        .collect();
    assert_eq!(owners.len(), 100);
    for owner in owners {
        assert!(is_uuid_version_4(&owner), "{owner}");
    }
}

fn is_uuid_version_4(text: &str) -> bool {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            14 => byte == b'4',
            19 => b"89ab".contains(&byte),
            _ => hex(byte),
        })
}

#[test]
fn a_random_owner_is_an_owner_like_any_other() {
    let (_server, mut c) = started();
    let grant = run(&mut c, "LOCK.ACQUIRE k * PX 60000").grant();
    let again = cmd!(c, "LOCK.ACQUIRE", "k", grant.owner, "HOLDS", 2).grant();
    let (holds, first) = (2, grant.clone());
    assert_eq!(again, Grant { holds, ..first });
    cmd!(c, "LOCK.RELEASE", "k", "*").refused("NOTOWNER");
    cmd!(c, "LOCK.RENEW", "k", "*").refused("NOTOWNER");
    assert_eq!(cmd!(c, "LOCK.RELEASE", "k", grant.owner, "ALL").int(), 0);
    cmd!(c, "LOCK.RELEASE", "k", "*").refused("NOTHELD");
}
