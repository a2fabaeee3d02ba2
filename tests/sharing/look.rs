//! What is told of a lock that is shared: `LOCK.HOLDERS`, `LOCK.INFO`, `LOCK.WAITERS`, `LOCK.FENCE`, `INFO lock`.

use crate::holders::{enter, holders, lasting, shared};
use redis::Value;
use testbed::{Expect, cmd, eventually, info, owners, run, started, wait};

const FIELDS: [&str; 8] = [
    "owner", "token", "holds", "lease-ms", "ttl-ms", "held-ms", "limit", "session",
];

#[test]
fn holders_are_flat_arrays_in_resp2_and_maps_in_resp3_with_the_same_fields_in_order() {
    let (server, mut two, _) = shared(["a", "b"], "LIMIT 5");
    for flat in run(&mut two, "LOCK.HOLDERS k").items() {
        let flat = flat.items();
        let names: Vec<_> = flat.iter().step_by(2).cloned().map(Expect::text).collect();
        assert_eq!(names, FIELDS);
        let mut numbers = flat[3..].iter().step_by(2);
        assert!(numbers.all(|value| matches!(value, Value::Int(_))));
    }
    let mut three = server.connection_resp3();
    for entry in run(&mut three, "LOCK.HOLDERS k").items() {
        let Value::Map(pairs) = entry else {
            panic!("a map expected")
        };
        let names: Vec<_> = pairs.iter().map(|(name, _)| name.clone().text()).collect();
        assert_eq!(names, FIELDS);
    }
    let told = lasting(&holders(&mut two));
    assert_eq!(told, lasting(&holders(&mut three)));
}

#[test]
fn holders_come_lowest_token_first_and_no_more_than_asked_for() {
    for count in [3, 30] {
        let (_server, mut c) = started();
        let all: Vec<_> = (0..count)
            .map(|n| enter(&mut c, &format!("o{n} SHARED")).token)
            .collect();
        // A renewal or a re-entry changes no order.
        enter(&mut c, "o0 SHARED");
        run(&mut c, "LOCK.RENEW k o1 PX 5000").grant();
        for (words, listed) in [
            ("", &all[..]),
            ("COUNT 1", &all[..1]),
            ("count 2", &all[..2]),
            ("COUNT 9223372036854775807", &all),
        ] {
            let entries = run(&mut c, &format!("LOCK.HOLDERS k {words}"))
                .items()
                .into_iter();
            let tokens = entries.map(|entry| entry.fields()["token"].clone().int());
            assert_eq!(tokens.collect::<Vec<_>>(), listed, "{words}");
        }
        for bad in [
            "COUNT 0",
            "COUNT -1",
            "COUNT x",
            "COUNT",
            "COUNT 1 COUNT 1",
            "x",
        ] {
            run(&mut c, &format!("LOCK.HOLDERS k {bad}")).refused("ERR");
        }
    }
}

#[test]
fn info_tells_of_the_lowest_token_how_many_there_are_and_the_smallest_limit() {
    let (server, mut c) = started();
    let a = run(&mut c, "LOCK.ACQUIRE k a SHARED PX 500000").grant();
    assert_eq!((info(&mut c).holders, info(&mut c).limit), (1, 0));
    enter(&mut c, "b LIMIT 9");
    enter(&mut c, "d LIMIT 5");
    let _waiter = wait(&server, "k e LIMIT 2 BLOCK 0");
    let told = info(&mut c);
    let found = (&told.owner[..], told.token, told.holds, told.lease_ms);
    assert_eq!(found, (&b"a"[..], a.token, 1, 500_000));
    assert_eq!((told.waiters, told.holders, told.limit), (1, 3, 5));
    // `ttl-ms` is that holder's, `PTTL` the latest.
    assert!(told.ttl_ms <= 500_000 && run(&mut c, "PTTL k").int() > 510_000);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(info(&mut c).owner, b"b");
    run(&mut c, "LOCK.RELEASE k d").int();
    assert_eq!(owners(&mut c), ["b", "e"]);
    assert_eq!(info(&mut c).limit, 2);
}

#[test]
fn the_server_counts_grants_in_memory_of_all_locks() {
    let (server, mut c) = started();
    let counted = || ["held", "holders"].map(|field| server.count(field));
    for n in 0..40 {
        enter(&mut c, &format!("o{n} SHARED"));
    }
    run(&mut c, "LOCK.ACQUIRE l a").grant();
    run(&mut c, "LOCK.ACQUIRE m a LIMIT 2").grant();
    assert_eq!(counted(), [3, 42]);
    run(&mut c, "LOCK.RELEASE k o7").int();
    run(&mut c, "LOCK.ACQUIRE m b SHARED").grant();
    run(&mut c, "LOCK.ACQUIRE m b SHARED").grant();
    assert_eq!(counted(), [3, 42]);
    run(&mut c, "UNLINK k").int();
    eventually(|| counted() == [2, 3], "those of k to be freed");
    run(&mut c, "LOCK.RELEASE m a").int();
    run(&mut c, "LOCK.ACQUIRE m b HOLDS 1").grant();
    assert_eq!(counted(), [2, 2]);
    run(&mut c, "FLUSHALL ASYNC").okay();
    eventually(|| counted() == [0, 0], "all to be freed");
}

#[test]
fn every_current_grant_is_fenced_as_right_and_the_lowest_token_is_told() {
    let (_server, mut c, [a, b, d]) = shared(["a", "b", "d"], "SHARED");
    for grant in [&a, &b, &d] {
        cmd!(c, "LOCK.FENCE", "k", grant.token).okay();
    }
    for token in [a.token - 1, d.token + 1, 1] {
        cmd!(c, "LOCK.FENCE", "k", token).refused("FENCED");
    }
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), a.token);
    run(&mut c, "LOCK.RELEASE k a").int();
    cmd!(c, "LOCK.FENCE", "k", a.token).refused("FENCED");
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), b.token);
    run(&mut c, "LOCK.RELEASE k b").int();
    run(&mut c, "LOCK.RELEASE k d").int();
    run(&mut c, "LOCK.FENCE k").nil();
    cmd!(c, "LOCK.FENCE", "k", d.token).refused("FENCED");
}
