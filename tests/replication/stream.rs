//! What goes down the stream, and what it makes of a replica.

use crate::*;
use redis::Connection;
use testbed::{Talk, run, transaction, wait};

#[test]
fn after_thousands_of_random_commands_a_replica_and_its_replica_are_as_the_primary() {
    let primary = primary().start();
    let replica = primary.replica();
    let sub_replica = replica.replica();
    let mut traffic = Traffic::on(&primary);
    for round in 0..4 {
        traffic.run(1000);
        assert_in_step(&primary, &replica, &format!("replica, round {round}"));
        assert_in_step(&replica, &sub_replica, &format!("below it, round {round}"));
    }
    assert!(traffic.grants() > 500, "{} grants", traffic.grants());
    assert!(replica.last_token() >= traffic.highest());
}

#[test]
fn a_replicas_own_append_only_file_makes_the_same_locks_again() {
    for preamble in ["yes", "no"] {
        let primary = primary().start();
        let mut replica = primary.replica_with(|settings| {
            settings
                .config("appendonly", "yes")
                .config("aof-use-rdb-preamble", preamble)
                .config("replicaof", &format!("127.0.0.1 {}", primary.port()))
        });
        let mut traffic = Traffic::on(&primary);
        traffic.run(1000);
        assert_in_step(&primary, &replica, "before the restart");
        let expected = primary.state();
        // A server does not stop while it writes its first file.
        replica.wait_for_rewrite();
        replica.restart_with("replicaof", "no one");
        assert_same(&expected, &replica.state(), "after the restart");
        assert!(replica.next_token() > traffic.highest());
    }
}

#[test]
fn a_lock_with_all_its_fields_reaches_the_replica() {
    let (primary, mut c) = primary().started();
    let replica = primary.replica();
    let owner = b"\0 an owner\r\n\xff";
    let first = cmd!(c, "LOCK.ACQUIRE", "k\0", owner, "PX", 100_000).grant();
    cmd!(c, "LOCK.ACQUIRE", "k\0", owner, "PX", 200_000).grant();
    let raised = first.token + 123_456;
    let (token, raise) = (("TOKEN", first.token), ("RAISE", raised));
    cmd!(c, "LOCK.RENEW", "k\0", owner, token, raise).grant();
    primary.wait_for_sync(&replica);
    let here = cmd!(c, "LOCK.INFO", "k\0").lock_info();
    let there = cmd!(replica.connection(), "LOCK.INFO", "k\0").lock_info();
    let found = (&there.owner[..], there.token, there.holds, there.lease_ms);
    assert_eq!(found, (&owner[..], raised, 2, 200_000));
    assert!((here.ttl_ms - there.ttl_ms).abs() < 20_000);
    assert_eq!(replica.last_token(), raised);
}

/// What these calls add to the primary's replication offset.
#[track_caller]
fn written_by(primary: &Server, calls: impl FnOnce(&mut Connection)) -> i64 {
    let mut c = primary.connection();
    let before = primary.number("replication", "master_repl_offset");
    calls(&mut c);
    primary.number("replication", "master_repl_offset") - before
}

#[test]
fn what_changes_nothing_replicates_nothing() {
    let (primary, mut c) = primary().started();
    let replica = primary.replica();
    let token = cmd!(c, "LOCK.ACQUIRE", "k", "o", "EX", 900).grant().token;
    cmd!(c, "LOCK.ACQUIRE", "persisted", "o").grant();
    cmd!(c, "PERSIST", "persisted").int();
    cmd!(c, "SET", "text", "v").okay();
    primary.wait_for_sync(&replica);

    let (ahead, old) = (token + 3_600_000_000, token - 1);
    let unchanging = [
        "LOCK.ACQUIRE k another".to_owned(),
        "LOCK.ACQUIRE k another HOLDS 2".to_owned(),
        "LOCK.ACQUIRE k o HOLDS 3".to_owned(),
        format!("LOCK.ACQUIRE k o TOKEN {old}"),
        "LOCK.ACQUIRE free o HOLDS 2".to_owned(),
        "LOCK.ACQUIRE k o PX 0".to_owned(),
        "LOCK.ACQUIRE text o".to_owned(),
        "LOCK.ACQUIRE persisted o HOLDS 1".to_owned(),
        "LOCK.RELEASE k another".to_owned(),
        "LOCK.RELEASE free o ALL".to_owned(),
        "LOCK.RELEASE k o HOLDS 1".to_owned(),
        format!("LOCK.RELEASE k o TOKEN {old}"),
        "LOCK.RELEASE text o".to_owned(),
        "LOCK.RENEW k another".to_owned(),
        "LOCK.RENEW free o".to_owned(),
        format!("LOCK.RENEW k o TOKEN {token} RAISE {ahead}"),
        format!("LOCK.RENEW k o TOKEN {token} RAISE {old}"),
        "LOCK.FENCE k".to_owned(),
        format!("LOCK.FENCE k {token}"),
        format!("LOCK.FENCE k {old}"),
        "LOCK.INFO k".to_owned(),
        "LOCK._APPLY k o 0 1 1 1".to_owned(),
        "LOCK._APPLY k".to_owned(),
        "LOCK._CLOCK none".to_owned(),
        "COPY k copied".to_owned(),
    ];
    for line in &unchanging {
        let alone = written_by(&primary, |c| drop(run(c, line)));
        assert_eq!(alone, 0, "{line}");
        let in_script = written_by(&primary, |c| {
            let script = "return redis.pcall(unpack(ARGV))";
            let _ = cmd!(*c, "EVAL", script, 0, words(line));
        });
        assert_eq!(in_script, 0, "{line} in a script");
    }
    let lines = unchanging.iter().filter(|line| *line != "LOCK._APPLY k");
    let lines: Vec<_> = lines.collect();
    let in_transaction = written_by(&primary, |c| drop(transaction(c, &lines)));
    assert_eq!(in_transaction, 0, "in a transaction");
    let control = written_by(&primary, |c| {
        cmd!(*c, "LOCK.RELEASE", "k", "o").int();
    });
    assert!(control > 0, "what changes something is written");
    assert_in_step(&primary, &replica, "afterwards");
}

#[test]
fn wait_tells_whether_a_replica_has_a_grant_also_one_that_was_waited_for() {
    let (primary, mut holder) = primary().started();
    let replica = primary.replica();
    cmd!(holder, "LOCK.ACQUIRE", "k", "holder").grant();
    let mut waiter = wait(&primary, "k waiter BLOCK 0");
    primary.wait_for_sync(&replica);

    replica.signal("STOP");
    cmd!(holder, "LOCK.RELEASE", "k", "holder").int();
    waiter.receive().grant();
    assert_eq!(cmd!(*waiter, "WAIT", 1, 100).int(), 0, "handed over");
    cmd!(holder, "LOCK.ACQUIRE", "other", "holder").grant();
    assert_eq!(cmd!(holder, "WAIT", 1, 100).int(), 0, "granted at once");
    replica.signal("CONT");
    for connection in [&mut *waiter, &mut holder] {
        assert_eq!(cmd!(*connection, "WAIT", 1, 10_000).int(), 1);
    }
}

#[test]
fn what_a_later_version_adds_to_an_effect_reaches_the_replicas_replica() {
    let primary = primary().start();
    let with_file = |settings: Builder| settings.config("appendonly", "yes");
    let replica = primary.replica_with(with_file);
    let sub_replica = replica.replica_with(with_file);
    let mut c = primary.connection();
    let at = unix_ms() + 90_000;
    let lock = effect("o", 77, 3, 90_000, at);
    cmd!(c, "LOCK._APPLY", "k", lock, "more", b"\0\xff").okay();
    cmd!(c, "LOCK._CLOCK", 88, "and", "more").okay();
    primary.wait_for_sync(&replica);
    replica.wait_for_sync(&sub_replica);
    for server in [&replica, &sub_replica] {
        let info = cmd!(server.connection(), "LOCK.INFO", "k").lock_info();
        let fields = (&info.owner[..], info.token, info.holds, info.lease_ms);
        assert_eq!(fields, (&b"o"[..], 77, 3, 90_000));
        assert_eq!(cmd!(server.connection(), "PEXPIRETIME", "k").int(), at);
        assert_eq!(server.last_token(), 88);
        // A replica starts its file anew behind a full sync; until then it is not in the manifest.
        for words in [&[&b"more"[..], b"\0\xff"][..], &[b"88", b"and", b"more"]] {
            let is_there = || server.aof().iter().any(|command| ends_with(command, words));
            eventually(is_there, "the whole effect in the replica's file");
        }
    }
}

fn ends_with(command: &[Vec<u8>], words: &[&[u8]]) -> bool {
    let end = command.iter().rev().zip(words.iter().rev());
    command.len() >= words.len() && end.into_iter().all(|(a, b)| a == b)
}

#[test]
fn an_effect_takes_the_place_of_whatever_a_diverged_replica_holds() {
    let primary = primary().start();
    let replica = primary.replica_with(|settings| settings.config("replica-read-only", "no"));
    let mut c = replica.connection();
    cmd!(c, "SET", "k", "its own", "PX", 50).okay();
    cmd!(c, "RPUSH", "list", "its own").int();
    let mut c = primary.connection();
    for key in ["k", "list"] {
        cmd!(c, "LOCK.ACQUIRE", key, "o").grant();
    }
    assert_in_step(&primary, &replica, "over other types");
}

#[test]
fn a_release_frees_whatever_a_diverged_replica_holds() {
    let (primary, mut c) = primary().started();
    let replica = primary.replica_with(|settings| settings.config("replica-read-only", "no"));
    for key in ["k", "text", "gone", "another"] {
        cmd!(c, "LOCK.ACQUIRE", key, "o").grant();
    }
    primary.wait_for_sync(&replica);
    let mut there = replica.connection();
    assert_eq!(cmd!(c, "LOCK.RELEASE", "k", "o").int(), 0);
    cmd!(c, "LOCK.ACQUIRE", "k", "other").grant();
    primary.wait_for_sync(&replica);
    let of_another = cmd!(there, "DUMP", "k").bytes();
    cmd!(there, "RESTORE", "another", 0, of_another, "REPLACE").okay();
    cmd!(there, "SET", "text", "its own").okay();
    assert_eq!(cmd!(there, "DEL", "gone").int(), 1);
    for call in ["k other", "text o", "gone o", "another o"] {
        let release = format!("LOCK.RELEASE {call} HOLDS 0");
        assert_eq!(run(&mut c, &release).int(), 0);
    }
    assert_in_step(&primary, &replica, "all free");
    assert_eq!(cmd!(there, "DBSIZE").int(), 0);
}
