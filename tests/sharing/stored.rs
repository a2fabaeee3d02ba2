//! Shares in files: AOF, RDB, rewrites, and a process that is killed.

use crate::holders::{Lasting, enter, holders_of, lasting};
use redis::Connection;
use std::collections::BTreeMap;
use testbed::state::assert_same;
use testbed::{Builder, Expect, Server, cmd, eventually, run};

fn append_only() -> Builder {
    Server::builder().config("appendonly", "yes")
}

/// Shared locks of all kinds: few and many holders, cut, persisted, narrowed, one with ended shares.
#[track_caller]
fn zoo(c: &mut Connection) {
    for n in 0..30 {
        let (limit, lease) = (100 + n, 600_000 + n);
        let words = format!("LOCK.ACQUIRE many o{n} LIMIT {limit} PX {lease}");
        run(c, &words).grant();
    }
    for key in [
        "few",
        "cut",
        "lasting cut",
        "persisted",
        "narrowed",
        "widened",
        "ended",
    ] {
        for owner in ["a", "b", "d"] {
            cmd!(*c, "LOCK.ACQUIRE", key, owner, "SHARED", "PX", 600_000).grant();
        }
    }
    cmd!(*c, "LOCK.ACQUIRE", "few", "a", "SHARED").grant();
    for key in ["cut", "lasting cut"] {
        cmd!(*c, "PEXPIRE", key, 100_000).int();
    }
    cmd!(*c, "LOCK.RENEW", "lasting cut", "b", "PX", 300_000).grant();
    cmd!(*c, "PERSIST", "persisted").int();
    cmd!(*c, "LOCK.ACQUIRE", "narrowed", "b", "LIMIT", 3).grant();
    for owner in ["a", "d"] {
        cmd!(*c, "LOCK.RELEASE", "widened", owner).int();
    }
    cmd!(*c, "LOCK.ACQUIRE", "widened", "b", "HOLDS", 1).grant();
    cmd!(*c, "LOCK.RENEW", "widened", "b", "LIMIT", 9).grant();
    cmd!(*c, "LOCK.RENEW", "ended", "a", "PX", 1).grant();
    eventually(|| holders_of(c, "ended").len() == 2, "one to end");
}

/// All that lasts of the holders of all locks.
fn told(c: &mut Connection) -> BTreeMap<String, Vec<Lasting>> {
    let keys = run(c, "KEYS *").items().into_iter().map(Expect::text);
    keys.map(|key| (key.clone(), lasting(&holders_of(c, &key))))
        .collect()
}

#[test]
fn every_kind_is_loaded_from_every_kind_of_file() {
    for preamble in ["yes", "no"] {
        for rewrite in [false, true] {
            let builder = append_only().config("aof-use-rdb-preamble", preamble);
            let (mut server, mut c) = builder.started();
            zoo(&mut c);
            if rewrite {
                run(&mut c, "BGREWRITEAOF").value();
                server.wait_for_rewrite();
            }
            let before = (server.whole_state(), told(&mut c));
            let seen = server.last_token();
            server.restart();
            let after = (server.whole_state(), told(&mut server.connection()));
            let what = format!("preamble {preamble}, rewritten {rewrite}");
            assert_same(&before.0, &after.0, &what);
            assert_eq!(before.1, after.1);
            assert_eq!(server.last_token(), seen);
        }
    }
    let (mut server, mut c) = Server::builder().config("save", "3600 1").started();
    zoo(&mut c);
    let before = (server.whole_state(), told(&mut c));
    run(&mut c, "DEBUG RELOAD").okay();
    assert_same(&before.0, &server.whole_state(), "reloaded");
    server.restart();
    assert_same(&before.0, &server.whole_state(), "after a restart");
    assert_eq!(before.1, told(&mut server.connection()));
}

/// The effects in the append-only file.
fn effects(server: &Server) -> impl Iterator<Item = Vec<u8>> {
    let commands = server.aof().into_iter();
    let ours = commands.filter(|words| words[0].eq_ignore_ascii_case(b"lock._apply"));
    ours.map(|mut words| words.remove(2))
}

/// The effect of a change tells of one holder, however many there are; of an end that they ended.
#[test]
fn a_change_costs_the_same_on_the_stream_with_many_holders() {
    let (server, mut c) = append_only().started();
    let lengths = || -> Vec<usize> { effects(&server).map(|effect| effect.len()).collect() };
    for n in 0..300 {
        enter(&mut c, &format!("o{n:03} SHARED"));
        run(&mut c, &format!("LOCK.RENEW k o{n:03} PX 600001")).grant();
    }
    let all = lengths();
    assert_eq!(all.len(), 600, "one for each change");
    assert!(all.iter().all(|length| *length == all[0]), "{all:?}");
    for n in 0..299 {
        run(&mut c, &format!("LOCK.RELEASE k o{n:03}")).int();
    }
    let released = lengths().split_off(600);
    let shorter = released.iter().all(|length| *length < all[0]);
    assert!(shorter, "{released:?}");
}

/// A lock that one holder has alone is as without sharing, in files and on the stream.
#[test]
fn a_lock_of_limit_1_is_stored_and_replicated_as_before() {
    let (server, mut c) = append_only().started();
    let end = testbed::state::unix_ms() + 600_000;
    let shared = run(&mut c, "LOCK.ACQUIRE k a SHARED PX 500000").grant();
    let token = shared.token;
    run(&mut c, "LOCK.ACQUIRE k a LIMIT 1 HOLDS 1 PX 600000").grant();
    let last = effects(&server).last().expect("an effect");
    let said = testbed::effect::read(&last).expect("a lock of limit 1");
    let found = (&said.owner[..], said.token, said.holds, said.lease_ms);
    assert_eq!(found, (&b"a"[..], token, 1, 600_000));
    assert!((end..end + 10_000).contains(&said.deadline));
    let payload = cmd!(c, "DUMP", "k").bytes();
    run(&mut c, &format!("LOCK._APPLY l a {token} 1 600000 {end}")).okay();
    assert_eq!(cmd!(c, "DUMP", "l").bytes(), payload);
}
