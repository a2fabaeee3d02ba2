//! `DUMP`, `RESTORE`, `MIGRATE`, `RENAME`, `MOVE`: shares carried as they are.

use crate::holders::{Holder, holders, holders_of, lasting, shared};
use redis::Connection;
use testbed::state::unix_ms;
use testbed::{Expect, Server, all_granted, cmd, dump, owners, run, started, wait, wait_to_share};

/// Three holders with leases, hold counts and limits of their own.
fn company(c: &mut Connection) -> Vec<Holder> {
    run(c, "LOCK.ACQUIRE k a SHARED PX 300000").grant();
    run(c, "LOCK.ACQUIRE k a SHARED").grant();
    run(c, "LOCK.ACQUIRE k b LIMIT 7 PX 100000").grant();
    run(c, "LOCK.ACQUIRE k d LIMIT 3 PX 200000").grant();
    holders(c)
}

/// The same company, and the same ends.
#[track_caller]
fn is_the_same(before: &[Holder], at: i64, after: &[Holder], now: i64) {
    assert_eq!(lasting(before), lasting(after));
    for (before, after) in before.iter().zip(after) {
        let (was, is) = (at + before.ttl_ms, now + after.ttl_ms);
        // The times are read beside the replies.
        let near = (was - is).abs() < 20_000;
        assert!(near, "{before:?} at {at}, {after:?} at {now}");
    }
}

#[test]
fn a_payload_carries_all_of_them_with_their_ends() {
    let (_server, mut c) = started();
    let before = company(&mut c);
    let at = unix_ms();
    let payload = cmd!(c, "DUMP", "k").bytes();
    let digest = |c: &mut Connection, key: &str| cmd!(*c, "DEBUG", "DIGEST-VALUE", key).items();
    for ttl in [0, 900_000] {
        cmd!(c, "RESTORE", "r", ttl, payload, "REPLACE").okay();
        is_the_same(&before, at, &holders_of(&mut c, "r"), unix_ms());
        // The server's digest has it in it whether a key expires.
        assert_eq!(digest(&mut c, "r") == digest(&mut c, "k"), ttl != 0);
        assert_eq!(cmd!(c, "DUMP", "r").bytes(), payload);
    }
    // A shorter TTL is a cut like any.
    cmd!(c, "RESTORE", "r", 50_000, payload, "REPLACE").okay();
    let mut cut = holders_of(&mut c, "r").into_iter();
    assert!(cut.all(|holder| holder.ttl_ms <= 50_000));
    run(&mut c, "PERSIST r").int();
    is_the_same(&before, at, &holders_of(&mut c, "r"), unix_ms());
    run(&mut c, "RESTORE new 0 x").refused("ERR");
    cmd!(c, "RESTORE", "r", 0, payload).refused("BUSYKEY");
    run(&mut c, "LOCK.ACQUIRE r e SHARED").nil();
    run(&mut c, "LOCK.RELEASE r b").int();
    run(&mut c, "LOCK.ACQUIRE r e SHARED").grant();
}

/// What no server stores: more than a limit allows, one owner twice.
#[test]
fn a_company_that_cannot_be_is_refused() {
    let (server, mut c, _) = shared(["a1", "a2", "a3"], "LIMIT 3");
    let (value, version) = dump::split(&cmd!(c, "DUMP", "k").bytes());
    // The mark, the form, three shares; the limit of the first.
    let head = b"\x02\x00\x02\x01\x02\x03\x02\x03";
    // Its lease (600000), then its name; the name alone can be in a token or in an end.
    let second = b"\x02\x80\x00\x09\x27\xc0\x05\x02a2";
    let behind = |part: &[u8]| {
        let at = value.windows(part.len()).position(|bytes| bytes == part);
        at.expect("the part") + part.len()
    };
    let [mut narrow, mut twice] = [value.clone(), value.clone()];
    narrow[behind(head) - 1] = 2;
    twice[behind(second) - 1] = b'1';
    for bad in [narrow, twice] {
        let payload = dump::reseal(&bad, version);
        cmd!(c, "RESTORE", "r", 0, payload).refused("ERR");
        assert_eq!(run(&mut c, "EXISTS r").int(), 0);
    }
    let payload = dump::reseal(&value, version);
    cmd!(c, "RESTORE", "r", 0, payload).okay();
    assert_eq!(server.signs_of_a_crash(), [""; 0]);
}

#[test]
fn migrate_takes_them_to_another_server() {
    let (one, other) = (Server::start(), Server::start());
    let (mut c, mut d) = (one.connection(), other.connection());
    let before = company(&mut c);
    let at = unix_ms();
    let mut waiter = wait(&one, "k x PX 600000 BLOCK 0");
    let migrate = format!("MIGRATE 127.0.0.1 {} k 0 5000", other.port());
    run(&mut c, &migrate).okay();
    is_the_same(&before, at, &holders(&mut d), unix_ms());
    waiter.granted();
    assert_eq!(owners(&mut c), ["x"]);
}

#[test]
fn rename_move_and_swapdb_take_them_and_leave_the_line() {
    for (command, database, key) in [
        ("RENAME k l", 0, "l"),
        ("MOVE k 1", 1, "k"),
        ("SWAPDB 0 1", 1, "k"),
    ] {
        let (server, mut c) = started();
        let before = company(&mut c);
        let at = unix_ms();
        let mut waiters = wait_to_share(&server, ["x", "y"]);
        run(&mut c, command).value();
        all_granted(&mut waiters);
        assert_eq!(owners(&mut c), ["x", "y"], "{command}");
        cmd!(c, "SELECT", database).okay();
        is_the_same(&before, at, &holders_of(&mut c, key), unix_ms());
    }
}
