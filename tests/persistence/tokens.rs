//! Tokens rise over every kind of restart, also when the last one lies ahead of the clock and no
//! lock is held any more.

use crate::*;
use redis::Connection;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;
/// How far ahead of the clock these tests push a token: most of a day.
const LEAD_MICROS: i64 = (DAY_MS - 3_600_000) * 1000;

/// Lets a token be raised by a day.
fn with_lead(builder: Builder) -> Builder {
    builder.config("lock.max-token-lead-ms", &DAY_MS.to_string())
}

/// Pushes the token clock ahead of time and leaves no lock behind; the token.
type Push = fn(&mut Connection) -> i64;

/// The ways in which a token gets ahead of the clock.
const PUSHES: [(&str, Push); 3] = [
    ("RAISE", |c| {
        let token = cmd!(*c, "LOCK.ACQUIRE", "k", "o").grant().token;
        let raised = token + LEAD_MICROS;
        cmd!(*c, "LOCK.RENEW", "k", "o", "TOKEN", token, "RAISE", raised).grant();
        assert_eq!(cmd!(*c, "LOCK.RELEASE", "k", "o").int(), 0);
        raised
    }),
    ("LOCK._APPLY", |c| {
        let ahead = unix_ms() * 1000 + 3 * LEAD_MICROS;
        cmd!(*c, "LOCK._APPLY", "k", effect("o", ahead, 1, 30_000, -1)).okay();
        assert_eq!(cmd!(*c, "DEL", "k").int(), 1);
        ahead
    }),
    ("LOCK._CLOCK", |c| {
        let ahead = unix_ms() * 1000 + 5 * LEAD_MICROS;
        cmd!(*c, "LOCK._CLOCK", ahead).okay();
        ahead
    }),
];

/// Pushes the clock of a new server in each way, lets `survive` happen to it, and demands that the
/// next token is higher. Twice: what was loaded must last as what was granted does.
#[track_caller]
fn tokens_rise_over(start: impl Fn() -> Server, survive: impl Fn(&mut Server)) {
    for (way, push) in PUSHES {
        let mut server = start();
        let pushed = push(&mut server.connection());
        assert!(server.databases().is_empty(), "no lock is held");
        for round in 0..2 {
            survive(&mut server);
            let last = server.last_token();
            assert_eq!(last, pushed, "{way}, round {round}: the clock");
        }
        assert_eq!(server.next_token(), pushed + 1, "{way}: the next token");
        survive(&mut server);
        assert!(server.next_token() > pushed + 1, "{way}: the one after it");
    }
}

#[test]
fn over_a_save_and_a_restart() {
    tokens_rise_over(
        || with_lead(Server::builder()).start(),
        |server| {
            cmd!(server.connection(), "SAVE").okay();
            server.restart();
        },
    );
}

#[test]
fn over_a_rewrite_and_a_restart() {
    for preamble in PREAMBLES {
        tokens_rise_over(
            || with_lead(append_only(preamble)).start(),
            |server| {
                rewrite_aof(server);
                server.restart();
            },
        );
    }
}

#[test]
fn over_a_rewrite_of_a_file_that_was_switched_on_later() {
    for preamble in PREAMBLES {
        tokens_rise_over(
            || with_lead(append_only(preamble).config("appendonly", "no")).start(),
            |server| {
                let mut c = server.connection();
                cmd!(c, "CONFIG", "SET", "appendonly", "yes").okay();
                server.wait_for_rewrite();
                server.kill9();
                server.restart_with("appendonly", "yes");
            },
        );
    }
}

#[test]
fn over_a_rewrite_on_a_replica_with_a_file_of_its_own() {
    for preamble in PREAMBLES {
        for (way, push) in PUSHES {
            let primary = with_lead(Server::builder()).start();
            let pushed_before = push(&mut primary.connection());
            let mut replica = primary.replica_with(|_| {
                append_only(preamble).config("replicaof", &format!("127.0.0.1 {}", primary.port()))
            });
            let last = replica.last_token();
            assert_eq!(last, pushed_before, "{way}: by the full sync");
            let mut c = primary.connection();
            cmd!(c, "LOCK._CLOCK", pushed_before + 7).okay();
            primary.wait_for_sync(&replica);
            replica.wait_for_rewrite();
            rewrite_aof(&replica);
            primary.wait_for_sync(&replica);
            replica.kill9();
            drop(primary);
            replica.restart_with("replicaof", "no one");
            assert_eq!(replica.next_token(), pushed_before + 8, "{way}, {preamble}");
        }
    }
}

#[test]
fn over_a_replicas_own_file_without_a_rewrite_of_its_own() {
    for (way, push) in PUSHES {
        let primary = with_lead(Server::builder()).start();
        let mut replica = primary.replica_with(|_| {
            append_only("no").config("replicaof", &format!("127.0.0.1 {}", primary.port()))
        });
        replica.wait_for_rewrite();
        let pushed = push(&mut primary.connection());
        primary.wait_for_sync(&replica);
        drop(primary);
        replica.restart_with("replicaof", "no one");
        assert_eq!(replica.next_token(), pushed + 1, "{way}");
    }
}

#[test]
fn a_lock_whose_lease_ended_while_the_server_was_down_is_gone_but_its_token_counts() {
    for (way, builder, keep) in ways_to_keep() {
        let (mut server, mut c) = builder.started();
        let token = unix_ms() * 1000 + LEAD_MICROS;
        let mut lease = 1_000;
        // Longer, where a busy machine takes too long to keep it.
        let deadline = loop {
            lease *= 2;
            let deadline = unix_ms() + lease;
            let effect = effect("o", token, 1, lease, deadline);
            cmd!(c, "LOCK._APPLY", "k", effect).okay();
            keep(&server);
            if cmd!(c, "EXISTS", "k").int() == 1 {
                break deadline;
            }
        };
        server.kill9();
        eventually(|| unix_ms() > deadline, "the end of the lease");
        server.restart();
        let mut c = server.connection();
        cmd!(c, "LOCK.INFO", "k").nil();
        assert_eq!(cmd!(c, "EXISTS", "k").int(), 0, "{way}");
        let grant = cmd!(c, "LOCK.ACQUIRE", "k", "o").grant();
        assert_eq!((grant.token, grant.holds), (token + 1, 1), "{way}");
    }
}

#[test]
fn a_restored_or_migrated_lock_lifts_the_clock_of_its_new_server() {
    let (_from, mut c) = started();
    let token = unix_ms() * 1000 + LEAD_MICROS;
    cmd!(c, "LOCK._APPLY", "k", effect("o", token, 2, 90_000, -1)).okay();
    let payload = cmd!(c, "DUMP", "k").bytes();

    let restored = Server::start();
    cmd!(restored.connection(), "RESTORE", "k", 90_000, payload).okay();
    let migrated = Server::start();
    let (host, port) = ("127.0.0.1", migrated.port());
    cmd!(c, "MIGRATE", host, port, "k", 0, 5000).okay();
    for server in [&restored, &migrated] {
        let mut c = server.connection();
        assert_eq!(server.last_token(), token);
        let info = cmd!(c, "LOCK.INFO", "k").lock_info();
        assert_eq!((info.token, info.holds, info.lease_ms), (token, 2, 90_000));
        assert_eq!(cmd!(c, "LOCK.RELEASE", "k", "o", "ALL").int(), 0);
        assert_eq!(server.next_token(), token + 1);
    }
    // An older one never lowers it.
    cmd!(restored.connection(), "RESTORE", "k", 90_000, payload).okay();
    assert_eq!(restored.last_token(), token + 1);
}
