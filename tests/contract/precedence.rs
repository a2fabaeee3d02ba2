//! Where several errors would apply, the first of this order wins: `ERR` for the arguments,
//! `WRONGTYPE`, `NOTHELD`, `NOTOWNER`, `FENCED`, `AHEAD`. (`ERR` before all: `arguments`.)

use crate::support::{HIGHEST_TOKEN, run, unchanged};
use redis::Connection;
use testbed::{Expect, cmd, started};

/// Calls that each come to a key of their own with `KEY`; the token 1 is no grant's, the raise is
/// far ahead of time.
fn calls() -> Vec<String> {
    let ahead = HIGHEST_TOKEN;
    [
        "LOCK.ACQUIRE KEY b",
        "LOCK.ACQUIRE KEY b BLOCK 0",
        "LOCK.ACQUIRE KEY *",
        "LOCK.ACQUIRE KEY b HOLDS 2",
        "LOCK.ACQUIRE KEY b TOKEN 1",
        "LOCK.ACQUIRE KEY b HOLDS 2 TOKEN 1 BLOCK 0",
        "LOCK.RELEASE KEY b",
        "LOCK.RELEASE KEY b ALL",
        "LOCK.RELEASE KEY b HOLDS 0",
        "LOCK.RELEASE KEY b TOKEN 1",
        "LOCK.RENEW KEY b",
        "LOCK.RENEW KEY b TOKEN 1",
        "LOCK.FENCE KEY",
        "LOCK.FENCE KEY 1",
        "LOCK.INFO KEY",
    ]
    .map(str::to_owned)
    .into_iter()
    .chain([format!("LOCK.RENEW KEY b TOKEN 1 RAISE {ahead}")])
    .collect()
}

fn expect_on(c: &mut Connection, key: &str, call: &str, code: &str) {
    let line = call.replace("KEY", key);
    let reply = unchanged(c, key, |c| run(c, &line));
    let told = reply.clone().err().map(|e| e.code().to_owned());
    assert_eq!(told.as_deref(), Some(code), "{line}: {reply:?}");
}

#[test]
fn another_type_comes_before_whatever_the_lock_would_say() {
    let (_server, mut c) = started();
    run(&mut c, "SET string 1").okay();
    run(&mut c, "RPUSH list 1").int();
    run(&mut c, "HSET hash f 1").int();
    run(&mut c, "XADD stream 1-1 f 1").bytes();
    for key in ["string", "list", "hash", "stream"] {
        for call in calls() {
            expect_on(&mut c, key, &call, "WRONGTYPE");
        }
    }
}

#[test]
fn another_owner_comes_before_a_wrong_token_and_a_far_raise() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    let judged = |call: &&String| {
        let words = ["HOLDS 2", "TOKEN"].iter().any(|word| call.contains(word));
        words || call.starts_with("LOCK.RELEASE") || call.starts_with("LOCK.RENEW")
    };
    for call in calls().iter().filter(judged) {
        expect_on(&mut c, "k", call, "NOTOWNER");
    }
}

#[test]
fn the_servers_own_refusals_come_before_the_modules() {
    let (_server, mut c) = started();
    cmd!(c, "SET", "text", "value").okay();
    cmd!(c, "CONFIG", "SET", "maxmemory", 1).okay();
    run(&mut c, "LOCK.ACQUIRE text a PX nothing").refused("OOM");
    cmd!(c, "CONFIG", "SET", "maxmemory", 0).okay();
    run(&mut c, "LOCK.ACQUIRE text a PX nothing").refused("ERR");
    run(&mut c, "LOCK.ACQUIRE text a").refused("WRONGTYPE");
}
