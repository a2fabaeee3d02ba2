//! A lock is a key like any other: what Redis's own commands make of it.

use crate::support::{deadline, run, unchanged};
use redis::{Connection, Value};
use testbed::{Expect, cmd, held, started};

fn scan(c: &mut Connection, of_type: &str) -> Vec<String> {
    let page = cmd!(*c, "SCAN", 0, "COUNT", 1000, "TYPE", of_type).items();
    let keys = page[1].clone().items().into_iter().map(Expect::text);
    let mut keys: Vec<_> = keys.collect();
    keys.sort();
    keys
}

#[test]
fn the_type_is_redislock() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k1 a").grant();
    run(&mut c, "LOCK.ACQUIRE k2 a").grant();
    run(&mut c, "SET text value").okay();
    assert_eq!(cmd!(c, "TYPE", "k1").text(), "RedisLock");
    assert_eq!(scan(&mut c, "RedisLock"), ["k1", "k2"]);
    assert_eq!(scan(&mut c, "string"), ["text"]);
    run(&mut c, "LOCK.RELEASE k1 a").int();
    assert_eq!(cmd!(c, "TYPE", "k1").text(), "none");
    assert_eq!(scan(&mut c, "RedisLock"), ["k2"]);
}

#[test]
fn rename_and_move_carry_the_grant_as_it_is() {
    let (_server, mut c) = held();
    let grant = run(&mut c, "LOCK.ACQUIRE k a").grant();
    let end = deadline(&mut c, "k");

    run(&mut c, "RENAME k renamed").okay();
    cmd!(c, "LOCK.FENCE", "renamed", grant.token).okay();
    assert_eq!(deadline(&mut c, "renamed"), end);

    assert_eq!(run(&mut c, "MOVE renamed 5").int(), 1);
    run(&mut c, "SELECT 5").okay();
    assert_eq!(run(&mut c, "LOCK.ACQUIRE renamed a HOLDS 2").grant(), grant);
    assert_eq!(run(&mut c, "LOCK.RELEASE renamed a ALL").int(), 0);
}

#[test]
fn copy_is_refused() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    run(&mut c, "LOCK.ACQUIRE l a").grant();
    for line in ["COPY k copy", "COPY k copy REPLACE", "COPY k k DB 3"] {
        unchanged(&mut c, "k", |c| run(c, line)).refused("ERR");
    }
    unchanged(&mut c, "l", |c| run(c, "COPY k l REPLACE")).refused("ERR");
    assert_eq!(cmd!(c, "EXISTS", "copy").int(), 0);
    run(&mut c, "SELECT 3").okay();
    assert_eq!(cmd!(c, "DBSIZE").int(), 0);
}

#[test]
fn memory_usage_tells_what_a_lock_takes() {
    let (_server, mut c) = started();
    cmd!(c, "LOCK.ACQUIRE", "k1", "a").grant();
    cmd!(c, "LOCK.ACQUIRE", "k2", "a".repeat(256)).grant();
    let small = cmd!(c, "MEMORY", "USAGE", "k1").int();
    let large = cmd!(c, "MEMORY", "USAGE", "k2").int();
    assert!((40..200).contains(&small), "{small}");
    let due = small + 200..small + 400;
    assert!(due.contains(&large), "{large} beside {small}");
}

#[test]
fn a_digest_is_that_of_owner_token_holds_and_lease() {
    let (_server, mut c) = started();
    let mut digest = |state: &str| {
        cmd!(c, "DEL", "k").int();
        run(&mut c, &format!("LOCK._APPLY k {state} -1")).okay();
        match cmd!(c, "DEBUG", "DIGEST-VALUE", "k").value() {
            Value::Array(mut digests) => digests.remove(0).text(),
            other => panic!("{other:?}"),
        }
    };
    let same = digest("a 5 1 60000");
    assert_eq!(digest("a 5 1 60000"), same);
    for other in ["b 5 1 60000", "a 6 1 60000", "a 5 2 60000", "a 5 1 60001"] {
        assert_ne!(digest(other), same, "{other}");
    }
}
