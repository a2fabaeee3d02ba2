//! Where `BLOCK` never waits.

use crate::support::{at_once, nobody_waits, run, wait_as};
use redis::{Connection, Value};
use testbed::{Expect, Server, cmd};

/// A server on which `a` holds `k` and `b` waits for it.
fn held() -> (Server, Connection, crate::support::Waiter) {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [waiter] = wait_as(&server, ["b"]);
    (server, c, waiter)
}

#[test]
fn in_a_transaction() {
    let (_server, mut c, mut waiter) = held();
    let lines = [
        "MULTI",
        "LOCK.ACQUIRE k c BLOCK 0",
        "LOCK.ACQUIRE k c BLOCK 500",
        "LOCK.ACQUIRE k a BLOCK 0",
        "LOCK.ACQUIRE k c BLOCK 0 HOLDS 2",
        "LOCK.RELEASE k a ALL",
        "LOCK.ACQUIRE k c BLOCK 0",
        "EXEC",
    ];
    let replies = at_once(&mut c, &lines).remove(7).items();
    assert_eq!(replies[..2], [Value::Nil, Value::Nil]);
    assert_eq!(replies[2].clone().grant().holds, 2);
    replies[3].clone().refused("NOTOWNER");
    assert_eq!(replies[4].clone().int(), 0);
    assert_eq!(replies[5], Value::Nil);
    assert_eq!(waiter.granted().owner, b"b");
}

#[test]
fn in_a_script() {
    let (server, mut c, waiter) = held();
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'c', 'BLOCK', ARGV[1])";
    for wait_ms in [0, 500] {
        cmd!(c, "EVAL", script, 1, "k", wait_ms).nil();
    }
    let mut c = server.connection_resp3();
    let script = format!("redis.setresp(3) {script}");
    cmd!(c, "EVAL", script, 1, "k", 0).nil();
    drop(waiter);
    nobody_waits(&server);
}

#[test]
fn in_a_function() {
    let (_server, mut c, mut waiter) = held();
    let code = "#!lua name=locks
        redis.register_function('take', function(keys, args)
            return redis.call('LOCK.ACQUIRE', keys[1], args[1], 'BLOCK', 0)
        end)";
    cmd!(c, "FUNCTION", "LOAD", code).text();
    run(&mut c, "FCALL take 1 k c").nil();
    assert_eq!(run(&mut c, "FCALL take 1 k a").grant().holds, 2);
    run(&mut c, "LOCK.RELEASE k a ALL").int();
    waiter.granted();
    run(&mut c, "FCALL take 1 k c").nil();
}

#[test]
fn where_the_lock_is_free() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a BLOCK 0").grant();
    assert_eq!(run(&mut c, "LOCK.ACQUIRE k a BLOCK 5").grant().holds, 2);
    let lines = ["MULTI", "LOCK.ACQUIRE j a BLOCK 0", "EXEC"];
    at_once(&mut c, &lines).remove(2).items().remove(0).grant();
    nobody_waits(&server);
}
