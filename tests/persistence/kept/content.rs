//! The locks that are kept, and how they are told.

use crate::*;
use redis::Connection;
use std::fmt::Write;

/// Tokens start here, so that they are the same at every making: the year 2128, in microseconds.
const TOKENS: i64 = 5_000_000_000_000_000;
/// The year 2200, in milliseconds: the locks are still there whenever they are read.
const DEADLINE: i64 = 7_258_118_400_000;

const BINARY: &[u8] = b"\0\xff\r\n%n";

/// The longest owner: every byte there is.
fn longest() -> Vec<u8> {
    (0..=255).collect()
}

#[track_caller]
fn take(c: &mut Connection, key: &str, owner: &[u8], lease: i64) -> i64 {
    cmd!(*c, "LOCK.ACQUIRE", key, owner, "PX", lease)
        .grant()
        .token
}

/// Moves the deadline on, each time to one of its own.
#[track_caller]
fn lengthen(c: &mut Connection, key: &str, by: i64) {
    assert_eq!(cmd!(*c, "PEXPIREAT", key, DEADLINE + by).int(), 1);
}

/// What is stored before a rewrite, or a replica's synchronisation.
#[track_caller]
pub(super) fn begin(c: &mut Connection) {
    cmd!(*c, "LOCK._CLOCK", TOKENS).okay();
    take(c, "plain", b"worker-1", 60_000);
    lengthen(c, "plain", 1);
    for _ in 0..3 {
        take(c, "held three times", BINARY, 90_000);
    }
    lengthen(c, "held three times", 2);
    take(c, "longest", &longest(), 315_360_000_000);
    lengthen(c, "longest", 3);
    take(c, "without an end", b"o", 70_000);
    assert_eq!(cmd!(*c, "PERSIST", "without an end").int(), 1);
    for key in ["raised later", "taken again later", "released later"] {
        take(c, key, b"o", 80_000);
        lengthen(c, key, 4);
    }
    cmd!(*c, "SELECT", 3).okay();
    take(c, "\0\r\n", b"in another database", 60_000);
    lengthen(c, "\0\r\n", 5);
    cmd!(*c, "SELECT", 0).okay();
}

/// What is stored after it.
#[track_caller]
pub(super) fn go_on(c: &mut Connection) {
    let token = take(c, "passing", b"o", 60_000);
    assert_eq!(cmd!(*c, "LOCK.RELEASE", "passing", "o").int(), 0);
    let info = cmd!(*c, "LOCK.INFO", "raised later").lock_info();
    let renewal = ["LOCK.RENEW", "raised later", "o", "PX", "123456", "TOKEN"];
    let renewal = cmd!(*c, renewal[0], &renewal[1..], info.token, "RAISE", token);
    assert_eq!(renewal.grant().token, token);
    lengthen(c, "raised later", 6);
    take(c, "taken again later", b"o", 20_000_000);
    lengthen(c, "taken again later", 7);
    assert_eq!(cmd!(*c, "LOCK.RELEASE", "released later", "o").int(), 0);
    // An effect without a deadline.
    take(c, "without an end", b"o", 70_000);

    cmd!(*c, "MULTI").okay();
    let _ = cmd!(*c, "LOCK.ACQUIRE", "in a transaction", "o", "PX", 50_000);
    let _ = cmd!(*c, "PEXPIREAT", "in a transaction", DEADLINE + 8);
    assert_eq!(cmd!(*c, "EXEC").items().len(), 2);

    cmd!(*c, "SELECT", 15).okay();
    take(c, "", b"of the empty key", 60_000);
    lengthen(c, "", 9);
    let limits: [(&str, i64, i64, i64); 2] = [
        ("least", 1, 1, 1),
        ("most", TOKENS, (1 << 31) - 1, 315_360_000_000),
    ];
    for (key, token, holds, lease) in limits {
        let effect = effect("o", token, holds, lease, DEADLINE);
        cmd!(*c, "LOCK._APPLY", key, effect).okay();
    }
    // The token clock ends up ahead of each lock that is held.
    take(c, "last", b"o", 60_000);
    assert_eq!(cmd!(*c, "LOCK.RELEASE", "last", "o").int(), 0);
}

/// All that a server holds, one lock in a line, and its token clock.
#[track_caller]
pub(super) fn described(server: &Server) -> String {
    let mut text = String::new();
    for ((database, key), stored) in server.whole_state() {
        let key = key.escape_ascii();
        let (owner, token, holds, lease) = stored.lock.expect("a lock");
        let owner = owner.escape_ascii();
        let deadline = stored.deadline;
        writeln!(
            text,
            "database {database} key \"{key}\" owner \"{owner}\" token {token} holds {holds} \
             lease-ms {lease} deadline-ms {deadline}"
        )
        .expect("a line");
    }
    writeln!(text, "token clock {}", server.last_token()).expect("a line");
    text
}
