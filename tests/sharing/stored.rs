//! Shares in files: AOF, RDB, rewrites, and a process that is killed.

use crate::holders::{Holder, enter, holders_of};
use redis::Connection;
use testbed::state::assert_same;
use testbed::{Builder, Expect, Server, aof, cmd, eventually, run};

/// Both forms in which an append-only file is rewritten.
pub(crate) const PREAMBLES: [&str; 2] = ["yes", "no"];

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

/// Owner, token, hold count, lease and limit.
type Lasting = (Vec<u8>, i64, i64, i64, i64);

/// All that lasts of the holders of all locks.
fn told(c: &mut Connection) -> Vec<(String, Vec<Lasting>)> {
    let mut keys: Vec<_> = run(c, "KEYS *")
        .items()
        .into_iter()
        .map(Expect::text)
        .collect();
    keys.sort();
    let lasting = |h: Holder| (h.owner, h.token, h.holds, h.lease_ms, h.limit);
    let of = |c: &mut Connection, key: &str| holders_of(c, key).into_iter().map(lasting).collect();
    keys.into_iter()
        .map(|key| (key.clone(), of(c, &key)))
        .collect()
}

#[test]
fn every_kind_is_loaded_from_every_kind_of_file() {
    for preamble in PREAMBLES {
        for rewrite in [false, true] {
            let (mut server, mut c) = Server::builder()
                .config("appendonly", "yes")
                .config("aof-use-rdb-preamble", preamble)
                .started();
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

/// The effect of a change tells of one holder, however many there are; of an end that they ended.
#[test]
fn a_change_costs_the_same_on_the_stream_with_many_holders() {
    let (server, mut c) = append_only().started();
    let lengths = |server: &Server| -> Vec<usize> {
        let applied = server.aof();
        let ours = applied
            .iter()
            .filter(|command| command[0].eq_ignore_ascii_case(b"lock._apply"));
        ours.map(|command: &aof::Command| command[2].len())
            .collect()
    };
    for n in 0..300 {
        enter(&mut c, &format!("o{n:03} SHARED"));
        run(&mut c, &format!("LOCK.RENEW k o{n:03} PX 600001")).grant();
    }
    let all = lengths(&server);
    assert_eq!(all.len(), 600, "one for each change");
    assert!(all.iter().all(|length| *length == all[0]), "{all:?}");
    for n in 0..299 {
        run(&mut c, &format!("LOCK.RELEASE k o{n:03}")).int();
    }
    let released = &lengths(&server)[600..];
    assert!(
        released.iter().all(|length| *length < all[0]),
        "{released:?}"
    );
}

/// A lock that one holder has alone is as without sharing, in files and on the stream.
#[test]
fn a_lock_of_limit_1_is_stored_and_replicated_as_before() {
    let (server, mut c) = append_only().started();
    let end = testbed::state::unix_ms() + 600_000;
    let token = run(&mut c, "LOCK.ACQUIRE k a SHARED PX 500000")
        .grant()
        .token;
    run(&mut c, "LOCK.ACQUIRE k a LIMIT 1 HOLDS 1 PX 600000").grant();
    let applied = server
        .aof()
        .into_iter()
        .rfind(|command| command[0].eq_ignore_ascii_case(b"lock._apply"));
    let said = testbed::effect::read(&applied.expect("an effect")[2]).expect("a lock of limit 1");
    assert_eq!(
        (said.owner, said.token, said.holds, said.lease_ms),
        (b"a".to_vec(), token, 1, 600_000)
    );
    assert!((end..end + 10_000).contains(&said.deadline));
    let payload = cmd!(c, "DUMP", "k").bytes();
    run(&mut c, &format!("LOCK._APPLY l a {token} 1 600000 {end}")).okay();
    assert_eq!(cmd!(c, "DUMP", "l").bytes(), payload);
}
