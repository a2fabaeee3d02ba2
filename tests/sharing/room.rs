//! With h holders, a call has room when h + 1 exceeds neither its own limit nor any holder's.

use crate::holders::{enter, holder, holders, holders_of, owners, shared};
use crate::support::{info, run, wait};
use redis::Connection;
use testbed::{Expect, Server, cmd};

#[test]
fn readers_share_and_a_writer_has_it_alone() {
    let (_server, mut c, _) = shared(["a", "b", "d"], "SHARED");
    run(&mut c, "LOCK.ACQUIRE k writer").nil();
    for reader in ["a", "b", "d"] {
        run(&mut c, "LOCK.ACQUIRE k writer").nil();
        assert_eq!(cmd!(c, "LOCK.RELEASE", "k", reader).int(), 0);
    }
    run(&mut c, "LOCK.ACQUIRE k writer").grant();
    run(&mut c, "LOCK.ACQUIRE k a SHARED").nil();
    run(&mut c, "LOCK.ACQUIRE k a LIMIT 2147483647").nil();
}

#[test]
fn a_semaphore_has_as_many_holders_as_its_users_limit() {
    let (_server, mut c, _) = shared(["a", "b", "d", "e", "f"], "LIMIT 5");
    run(&mut c, "LOCK.ACQUIRE k g LIMIT 5").nil();
    run(&mut c, "LOCK.ACQUIRE k g SHARED").nil();
    assert_eq!(run(&mut c, "LOCK.RELEASE k d").int(), 0);
    enter(&mut c, "g LIMIT 5");
    assert_eq!(owners(&mut c), ["a", "b", "e", "f", "g"]);
}

/// Every sequence of four callers with these limits, against the rule as it is written.
#[test]
fn the_rule_for_every_company() {
    const LIMITS: [i64; 5] = [0, 1, 2, 3, 4];
    let server = Server::start();
    let mut c = server.connection();
    for number in 0..LIMITS.len().pow(4) {
        let key = format!("k{number}");
        let limits = (0..4).map(|at| LIMITS[number / LIMITS.len().pow(at) % LIMITS.len()]);
        let mut present = Vec::<i64>::new();
        for (owner, limit) in limits.enumerate() {
            let count = 1 + i64::try_from(present.len()).expect("small");
            let bears = |limit: &i64| *limit == 0 || count <= *limit;
            let room = bears(&limit) && present.iter().all(bears);
            let reply = cmd!(c, "LOCK.ACQUIRE", key, owner, "LIMIT", limit);
            if room {
                assert_eq!(reply.grant().limit, Some(limit), "{present:?} and {limit}");
                present.push(limit);
            } else {
                reply.nil();
            }
        }
        let told: Vec<_> = holders_of(&mut c, &key)
            .iter()
            .map(|holder| holder.limit)
            .collect();
        assert_eq!(told, present);
    }
}

/// Beside the owner and the token, all that is told of `k` and of what it costs.
fn told(c: &mut Connection) -> (Vec<(i64, i64, i64)>, i64, i64, usize) {
    let holders = holders(c);
    let all = holders
        .iter()
        .map(|holder| (holder.holds, holder.lease_ms, holder.limit));
    let memory = cmd!(*c, "MEMORY", "USAGE", "k").int();
    let stored = cmd!(*c, "DUMP", "k").bytes().len();
    (all.collect(), info(c).limit, memory, stored)
}

#[test]
fn limit_1_is_a_plain_acquire_and_limit_0_is_shared() {
    let server = Server::start();
    let mut c = server.connection();
    for (one, other, limit) in [("a", "a LIMIT 1", 1), ("a SHARED", "a LIMIT 0", 0)] {
        enter(&mut c, one);
        let first = told(&mut c);
        run(&mut c, "DEL k").int();
        enter(&mut c, other);
        assert_eq!(told(&mut c), first, "{one}, {other}");
        assert_eq!(first.1, limit);
        run(&mut c, "DEL k").int();
    }
}

#[test]
fn the_grant_has_a_fifth_part_where_the_call_asked_for_a_limit() {
    let server = Server::start();
    let mut c = server.connection();
    for (words, limit) in [
        ("LOCK.ACQUIRE k a SHARED", Some(0)),
        ("LOCK.ACQUIRE k b LIMIT 7", Some(7)),
        ("LOCK.ACQUIRE k a LIMIT 9 HOLDS 1", Some(9)),
        ("LOCK.RENEW k b", None),
        ("LOCK.RENEW k b SHARED", Some(0)),
        ("LOCK.RENEW k b LIMIT 5", Some(5)),
        ("LOCK.RENEW k a LIMIT 2147483647", Some(2_147_483_647)),
        ("LOCK.ACQUIRE l a", None),
        ("LOCK.ACQUIRE l a LIMIT 1", Some(1)),
        ("LOCK.ACQUIRE l a SHARED", Some(1)),
        ("LOCK.ACQUIRE l a LIMIT 5", Some(1)),
        ("LOCK.RENEW l a LIMIT 1", Some(1)),
        ("LOCK.RENEW l a", None),
    ] {
        assert_eq!(run(&mut c, words).grant().limit, limit, "{words}");
    }
    let (mut asked, mut plain) = (
        wait(&server, "l b SHARED BLOCK 0"),
        wait(&server, "l d BLOCK 0"),
    );
    run(&mut c, "LOCK.RELEASE l a ALL").int();
    assert_eq!(asked.granted().limit, Some(0));
    run(&mut c, "LOCK.RELEASE l b").int();
    assert_eq!(plain.granted().limit, None);
}

#[test]
fn a_plain_acquire_on_a_semaphore_waits_until_all_are_out_and_keeps_them_out() {
    let (server, mut c, _) = shared(["a", "b"], "LIMIT 3");
    let mut drain = wait(&server, "k drain PX 600000 BLOCK 0");
    run(&mut c, "LOCK.ACQUIRE k d LIMIT 3").nil();
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(owners(&mut c), ["b"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
    drain.granted();
    run(&mut c, "LOCK.ACQUIRE k d LIMIT 3").nil();
    assert_eq!(holder(&mut c, "drain").limit, 1);
    assert_eq!(run(&mut c, "LOCK.RELEASE k drain").int(), 0);
    enter(&mut c, "d LIMIT 3");
}

#[test]
fn who_waits_until_it_is_done_gets_in_with_all_the_others() {
    let server = Server::start();
    let mut c = server.connection();
    enter(&mut c, "works");
    let mut all = ["b", "d", "e"].map(|owner| wait(&server, &format!("k {owner} SHARED BLOCK 0")));
    assert_eq!(run(&mut c, "LOCK.RELEASE k works").int(), 0);
    let tokens = all.each_mut().map(|waiter| waiter.granted().token);
    assert!(tokens.is_sorted());
    assert_eq!(owners(&mut c), ["b", "d", "e"]);
}
