//! Lua scripts and functions.

use crate::support::{run, unchanged};
use redis::Connection;
use testbed::{Expect, Reply, Server, cmd, started};

/// A library with a function for each kind of call; `f_ro` may not write.
const LIBRARY: &str = "#!lua name=locks
    local function call(keys, args) return redis.call(args[1], keys[1], unpack(args, 2)) end
    redis.register_function('f', call)
    redis.register_function{function_name='f_ro', callback=call, flags={'no-writes'}}";

const CALL: &str = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";

/// Ways to run `command k arguments…` on the server's side.
const WAYS: [(&str, &str); 2] = [("EVAL", CALL), ("FCALL", "f")];
/// The same where nothing may be written.
const READ_ONLY_WAYS: [(&str, &str); 3] =
    [("EVAL_RO", CALL), ("FCALL_RO", "f_ro"), ("FCALL", "f_ro")];

fn through(c: &mut Connection, (way, code): (&str, &str), line: &str) -> Reply {
    let arguments: Vec<_> = line.split(' ').collect();
    cmd!(*c, way, code, 1, "k", arguments)
}

fn server_with_functions() -> (Server, Connection) {
    let (server, mut c) = started();
    cmd!(c, "FUNCTION", "LOAD", LIBRARY).value();
    (server, c)
}

#[test]
fn commands_reply_the_same_from_a_script_or_function() {
    let (_server, mut c) = server_with_functions();
    for way in WAYS {
        let grant = through(&mut c, way, "LOCK.ACQUIRE a PX 60000").grant();
        let told = (&grant.owner[..], grant.holds, grant.lease);
        assert_eq!(told, (&b"a"[..], 1, 60_000));
        through(&mut c, way, "LOCK.ACQUIRE b").nil();
        assert_eq!(through(&mut c, way, "LOCK.FENCE").int(), grant.token);
        let info = through(&mut c, way, "LOCK.INFO").lock_info();
        assert_eq!(info.token, grant.token);
        assert_eq!(through(&mut c, way, "LOCK.RENEW a").grant(), grant);
        through(&mut c, way, "LOCK.RELEASE b").refused("NOTOWNER");
        through(&mut c, way, "LOCK.FENCE 1").refused("FENCED");
        assert_eq!(through(&mut c, way, "LOCK.RELEASE a").int(), 0);
        through(&mut c, way, "LOCK.RELEASE a").refused("NOTHELD");
        through(&mut c, way, "LOCK.INFO").nil();
        let random = through(&mut c, way, "LOCK.ACQUIRE *").grant();
        assert_eq!(random.owner.len(), 36);
        run(&mut c, "SET k text").okay();
        through(&mut c, way, "LOCK.ACQUIRE a").refused("WRONGTYPE");
        run(&mut c, "DEL k").int();
    }
}

#[test]
fn block_never_waits_in_a_script_or_function() {
    let (_server, mut c) = server_with_functions();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    for way in WAYS {
        unchanged(&mut c, "k", |c| through(c, way, "LOCK.ACQUIRE b BLOCK 0")).nil();
        unchanged(&mut c, "k", |c| {
            through(c, way, "LOCK.ACQUIRE b BLOCK 60000")
        })
        .nil();
        through(&mut c, way, "LOCK.ACQUIRE a BLOCK 0").grant();
    }
}

#[test]
fn a_read_only_script_or_function_may_look_but_not_write() {
    let (_server, mut c) = server_with_functions();
    let token = run(&mut c, "LOCK.ACQUIRE k a PX 60000").grant().token;
    for way in READ_ONLY_WAYS {
        assert_eq!(through(&mut c, way, "LOCK.INFO").lock_info().token, token);
        for line in [
            "LOCK.ACQUIRE a",
            "LOCK.ACQUIRE b",
            "LOCK.RELEASE a",
            "LOCK.RENEW a",
            "LOCK.FENCE",
            &format!("LOCK.FENCE {token}"),
            "LOCK._APPLY a 1 1 1 -1",
        ] {
            unchanged(&mut c, "k", |c| through(c, way, line)).refused("ERR");
        }
    }
}

#[test]
fn a_function_that_may_write_is_refused_to_fcall_ro() {
    let (_server, mut c) = server_with_functions();
    through(&mut c, ("FCALL_RO", "f"), "LOCK.INFO").refused("ERR");
}

#[test]
fn fence_stops_a_script_or_function_before_the_write_that_follows() {
    let (_server, mut c) = started();
    let body = "redis.call('LOCK.FENCE', KEYS[1], ARGV[1]) \
        return redis.call('INCR', KEYS[2])";
    let library = format!(
        "#!lua name=fenced\nredis.register_function('write', function(KEYS, ARGV) {body} end)"
    );
    cmd!(c, "FUNCTION", "LOAD", library).value();
    let stale = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    for (way, code) in [("EVAL", body), ("FCALL", "write")] {
        run(&mut c, "DEL k written").value();
        let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
        cmd!(c, way, code, 2, "k", "written", stale).refused("FENCED");
        assert_eq!(run(&mut c, "EXISTS written").int(), 0);
        assert_eq!(cmd!(c, way, code, 2, "k", "written", token).int(), 1);
        run(&mut c, "LOCK.RELEASE k a").int();
        cmd!(c, way, code, 2, "k", "written", token).refused("FENCED");
        assert_eq!(run(&mut c, "GET written").text(), "1");
    }
}

#[test]
fn a_script_can_catch_an_error_and_read_its_code() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    let catch = "local reply = redis.pcall(ARGV[1], KEYS[1], ARGV[2]) \
        return string.match(reply.err, '^%-?(%u+)')";
    for (command, argument, code) in [
        ("LOCK.FENCE", "1", "FENCED"),
        ("LOCK.RELEASE", "b", "NOTOWNER"),
        ("LOCK.FENCE", "x", "ERR"),
    ] {
        let caught = cmd!(c, "EVAL", catch, 1, "k", command, argument);
        assert_eq!(caught.text(), code);
    }
}

#[test]
fn a_lock_can_be_taken_used_and_given_back_in_one_script() {
    let (_server, mut c) = started();
    let script = "local grant = redis.call('LOCK.ACQUIRE', KEYS[1], '*', 'PX', 1000) \
        redis.call('SET', KEYS[2], string.format('%.0f', grant[1])) \
        return redis.call('LOCK.RELEASE', KEYS[1], grant[2], 'TOKEN', string.format('%.0f', grant[1]))";
    assert_eq!(cmd!(c, "EVAL", script, 2, "k", "written").int(), 0);
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
    assert_eq!(run(&mut c, "GET written").text().len(), 16);
}
