//! The limit of one's own grant, and `lock.max-holders`. The words are shown in the core (`parse/tests.rs`,
//! `parse/acquire_tests.rs`), and who has room (`properties`).

use crate::holders::{enter, holder, holders, shared};
use redis::Connection;
use testbed::{
    Expect, Reply, Server, Talk, cmd, line, owners, queue, run, started, transaction, wait,
};

/// Makes a call that leaves `k` as it was, not a byte less or more, and no replica told of it.
#[track_caller]
fn unchanged(c: &mut Connection, words: &str) -> Reply {
    let state = |c: &mut Connection| (cmd!(*c, "DUMP", "k").value(), run(c, "PEXPIRETIME k").int());
    let before = state(c);
    let reply = run(c, words);
    assert_eq!(state(c), before, "changed by {words}");
    reply
}

#[test]
fn the_only_reader_becomes_the_writer_by_a_plain_acquire() {
    let (_server, mut c, [before]) = shared(["a"], "SHARED");
    let plain = run(&mut c, "LOCK.ACQUIRE other a PX 600000").grant();
    let writer = enter(&mut c, "a");
    let found = (writer.token, writer.holds, writer.limit);
    assert_eq!(found, (before.token, 2, None));
    run(&mut c, "LOCK.ACQUIRE k b SHARED").nil();
    // From then on it is stored as any lock of one holder.
    run(&mut c, "LOCK.RELEASE k a").int();
    let stored = |c: &mut Connection, key| cmd!(*c, "DUMP", key).bytes().len();
    assert_eq!(stored(&mut c, "k"), stored(&mut c, "other"));
    assert_eq!(plain.holds, holder(&mut c, "a").holds);
    run(&mut c, "PERSIST k").int();
    assert_eq!(holders(&mut c)[0].ttl_ms, -1, "its TTL is its lease");
}

#[test]
fn two_that_share_and_want_it_alone_are_told_so_at_once() {
    let (_server, mut c, _) = shared(["a", "b"], "SHARED");
    for words in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a LIMIT 1",
        "LOCK.ACQUIRE k b BLOCK 0",
        "LOCK.ACQUIRE k b LIMIT 1 HOLDS 1",
        "LOCK.ACQUIRE k b HOLDS 2 BLOCK 0",
        "LOCK.RENEW k a LIMIT 1",
        "LOCK.RENEW k a LIMIT 1 PX 5",
    ] {
        unchanged(&mut c, words).refused("NOTALONE");
    }
    assert_eq!(queue(&mut c), [""; 0]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    enter(&mut c, "b");
    assert_eq!(holder(&mut c, "b").limit, 1);
}

/// The share of `b` ends while the line stands still, and a renewal is the next command.
#[test]
fn a_renewal_is_judged_after_those_who_have_room_since_a_lease_ended() {
    let (server, mut c, _) = shared(["a"], "LIMIT 2");
    run(&mut c, "LOCK.ACQUIRE k b LIMIT 2 PX 300").grant();
    let mut next = wait(&server, "k d LIMIT 2 PX 600000 BLOCK 0");
    server.while_stopped(|| {
        c.post(&line("LOCK.RENEW k a LIMIT 1"));
        std::thread::sleep(std::time::Duration::from_millis(350));
    });
    c.receive().refused("NOTALONE");
    next.granted();
    assert_eq!(owners(&mut c), ["a", "d"]);
}

#[test]
fn a_waiting_call_of_an_owner_that_comes_to_share_is_told_too() {
    let (server, mut c) = started();
    enter(&mut c, "a");
    let mut reader = wait(&server, "k d SHARED PX 600000 BLOCK 0");
    let mut shares = wait(&server, "k b SHARED PX 600000 BLOCK 0");
    let mut alone = wait(&server, "k b PX 600000 BLOCK 0");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    reader.granted();
    shares.granted();
    alone.receive().refused("NOTALONE");
    assert_eq!(owners(&mut c), ["d", "b"]);
    assert_eq!(holder(&mut c, "b").limit, 0);
}

#[test]
fn the_grant_has_a_fifth_part_where_the_call_asked_for_a_limit() {
    let (server, mut c) = started();
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
    let [mut asked, mut plain] =
        ["l b SHARED BLOCK 0", "l d BLOCK 0"].map(|words| wait(&server, words));
    run(&mut c, "LOCK.RELEASE l a ALL").int();
    assert_eq!(asked.granted().limit, Some(0));
    run(&mut c, "LOCK.RELEASE l b").int();
    assert_eq!(plain.granted().limit, None);
}

#[test]
fn transactions_scripts_and_functions_do_as_calls_do_and_never_wait() {
    let (_server, mut c, _) = shared(["a"], "LIMIT 2");
    let lines = [
        "LOCK.ACQUIRE k b LIMIT 2 BLOCK 0",
        "LOCK.ACQUIRE k d LIMIT 2 BLOCK 0",
        "LOCK.RELEASE k a",
        "LOCK.ACQUIRE k d LIMIT 2 BLOCK 0",
        "LOCK.RENEW k d LIMIT 1",
        "LOCK.HOLDERS k",
    ];
    let exec = transaction(&mut c, &lines);
    assert_eq!(exec[0].clone().grant().limit, Some(2));
    exec[1].clone().nil();
    assert_eq!(exec[3].clone().grant().limit, Some(2));
    exec[4].clone().refused("NOTALONE");
    assert_eq!(exec[5].clone().items().len(), 2);
    let script = "local call = redis.call
        local full = call('LOCK.ACQUIRE', KEYS[1], 'e', 'LIMIT', 2, 'BLOCK', 0)
        call('LOCK.RELEASE', KEYS[1], 'b')
        local grant = call('LOCK.ACQUIRE', KEYS[1], 'e', 'SHARED')
        local alone = redis.pcall('LOCK.ACQUIRE', KEYS[1], 'e')
        return {tostring(full), grant[5], alone.err, #call('LOCK.HOLDERS', KEYS[1])}";
    let reply = cmd!(c, "EVAL", script, 1, "k").items();
    assert_eq!(reply[0].clone().text(), "false");
    assert_eq!(reply[1].clone().int(), 0);
    assert!(reply[2].clone().text().starts_with("NOTALONE "));
    assert_eq!(reply[3].clone().int(), 2);
    let function = "#!lua name=f\nredis.register_function('share', function(keys)
        return #redis.call('LOCK.ACQUIRE', keys[1], 'f', 'SHARED', 'BLOCK', '0') end)";
    cmd!(c, "FUNCTION", "LOAD", function).text();
    run(&mut c, "LOCK.RELEASE k d").int();
    assert_eq!(cmd!(c, "FCALL", "share", 1, "k").int(), 5);
    assert_eq!(owners(&mut c), ["e", "f"]);
}

#[test]
fn nobody_has_room_beyond_it() {
    let (server, mut c) = Server::builder().config("lock.max-holders", "2").started();
    for owner in ["a", "b"] {
        enter(&mut c, &format!("{owner} SHARED"));
    }
    run(&mut c, "LOCK.ACQUIRE k d SHARED").nil();
    run(&mut c, "LOCK.ACQUIRE k d LIMIT 900").nil();
    // Who holds it already needs no room.
    assert_eq!(enter(&mut c, "a SHARED").holds, 2);
    let mut next = wait(&server, "k d SHARED PX 600000 BLOCK 0");
    run(&mut c, "LOCK.RELEASE k b").int();
    next.granted();
    assert_eq!(owners(&mut c), ["a", "d"]);
}

#[test]
fn a_lower_bound_puts_nobody_out() {
    let (server, mut c, _) = shared(["a", "b", "d"], "SHARED");
    run(&mut c, "CONFIG SET lock.max-holders 1").okay();
    assert_eq!(owners(&mut c), ["a", "b", "d"]);
    assert_eq!(enter(&mut c, "b SHARED").holds, 2);
    let _next = wait(&server, "k e SHARED BLOCK 0");
    for owner in ["a", "d"] {
        run(&mut c, &format!("LOCK.RELEASE k {owner}")).int();
        assert_eq!(queue(&mut c), ["e"]);
    }
    run(&mut c, "LOCK.RELEASE k b ALL").int();
    assert_eq!(owners(&mut c), ["e"]);
}

#[test]
fn it_bounds_no_file_and_no_replica() {
    let (mut server, mut c, _) = shared(["a", "b", "d"], "SHARED");
    run(&mut c, "CONFIG SET lock.max-holders 1").okay();
    let replica = server.replica_with(|settings| settings.config("lock.max-holders", "1"));
    assert_eq!(owners(&mut replica.connection()), ["a", "b", "d"]);
    run(&mut c, "CONFIG REWRITE").okay();
    run(&mut c, "SAVE").okay();
    drop(replica);
    server.restart();
    assert_eq!(owners(&mut server.connection()), ["a", "b", "d"]);
}
