//! A replica answers `READONLY` to every command but `LOCK.INFO`, also when it may be written to.

use crate::support::{last_token, run};
use testbed::{Expect, Server, cmd, eventually, words};

const REFUSED: [&str; 12] = [
    "LOCK.ACQUIRE k a",
    "LOCK.ACQUIRE k b",
    "LOCK.ACQUIRE free *",
    "LOCK.ACQUIRE k b BLOCK 0",
    "LOCK.ACQUIRE k a PX nothing",
    "LOCK.RELEASE k a",
    "LOCK.RELEASE free a",
    "LOCK.RENEW k a",
    "LOCK.FENCE k",
    "LOCK.FENCE k 1",
    "LOCK._APPLY k a 5 1 60000 -1",
    "LOCK._CLOCK 5",
];

#[test]
fn every_command_but_info_is_refused() {
    for writable in ["yes", "no"] {
        let primary = Server::start();
        let mut c = primary.connection();
        let token = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant().token;
        let replica = primary.replica_with(|builder| builder.config("replica-read-only", writable));
        let mut there = replica.connection();
        for line in REFUSED {
            let error = run(&mut there, line).refused("READONLY");
            assert!(error.len() > 20, "{error}");
        }
        let info = run(&mut there, "LOCK.INFO k").lock_info();
        assert_eq!(
            (info.owner.as_slice(), info.token, info.holds),
            (&b"a"[..], token, 1)
        );
        run(&mut there, "LOCK.INFO free").nil();
        assert_eq!(last_token(&mut there), token);
    }
}

#[test]
fn scripts_and_transactions_are_refused_the_same_on_a_writable_replica() {
    let primary = Server::start();
    let replica = primary.replica_with(|builder| builder.config("replica-read-only", "no"));
    let mut c = replica.connection();
    for line in REFUSED {
        let words = words(line);
        cmd!(c, "EVAL", "return redis.call(unpack(ARGV))", 0, words).refused("READONLY");
        run(&mut c, "MULTI").okay();
        run(&mut c, line).value();
        run(&mut c, "EXEC").items().remove(0).refused("READONLY");
    }
    assert_eq!(run(&mut c, "DBSIZE").int(), 0);
}

#[test]
fn a_replica_shows_what_its_primary_does() {
    let primary = Server::start();
    let replica = primary.replica();
    let (mut c, mut there) = (primary.connection(), replica.connection());
    for line in [
        "LOCK.ACQUIRE k a PX 60000",
        "LOCK.ACQUIRE k a HOLDS 2",
        "LOCK.RENEW k a PX 70000",
        "LOCK.RELEASE k a",
        "PERSIST k",
        "LOCK.ACQUIRE k a",
    ] {
        run(&mut c, line).value();
        primary.wait_for_sync(&replica);
        let (here, copy) = (
            run(&mut c, "LOCK.INFO k").lock_info(),
            run(&mut there, "LOCK.INFO k").lock_info(),
        );
        assert_eq!(
            (&copy.owner, copy.token, copy.holds),
            (&here.owner, here.token, here.holds)
        );
        assert_eq!(copy.lease_ms, here.lease_ms, "after {line}");
        assert_eq!(
            cmd!(there, "PEXPIRETIME", "k").int(),
            cmd!(c, "PEXPIRETIME", "k").int()
        );
    }
    run(&mut c, "LOCK.RELEASE k a ALL").int();
    primary.wait_for_sync(&replica);
    run(&mut there, "LOCK.INFO k").nil();
}

#[test]
fn an_expired_lock_is_free_on_a_replica_too() {
    let primary = Server::start();
    let replica = primary.replica();
    let (mut c, mut there) = (primary.connection(), replica.connection());
    run(&mut c, "LOCK.ACQUIRE k a PX 30").grant();
    eventually(
        || run(&mut there, "LOCK.INFO k") == Ok(redis::Value::Nil),
        "the lease to end",
    );
}

#[test]
fn a_promoted_replica_grants_above_every_token_of_its_primary() {
    let primary = Server::start();
    let replica = primary.replica();
    let (mut c, mut there) = (primary.connection(), replica.connection());
    let ahead = crate::support::now_us() + 3_600_000_000;
    cmd!(c, "LOCK._CLOCK", ahead).okay();
    let held = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let free = run(&mut c, "LOCK.ACQUIRE l a").grant();
    run(&mut c, "LOCK.RELEASE l a").int();
    primary.wait_for_sync(&replica);

    run(&mut there, "REPLICAOF NO ONE").okay();
    run(&mut there, "LOCK.ACQUIRE k b").nil();
    assert_eq!(run(&mut there, "LOCK.RENEW k a").grant(), held);
    assert_eq!(
        run(&mut there, "LOCK.ACQUIRE l b").grant().token,
        free.token + 1
    );
}
