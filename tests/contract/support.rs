//! What many of the tests ask of a server.

pub(crate) use testbed::run;
pub(crate) use testbed::state::{deadline, unix_micros as now_us, unix_ms as now_ms};

use redis::{Connection, Value};
use testbed::{Expect, Reply, Server, cmd};

/// The highest fencing token, 2^53 - 1.
pub(crate) const HIGHEST_TOKEN: i64 = (1 << 53) - 1;
/// The longest lease and the longest wait in milliseconds: ten years.
pub(crate) const TEN_YEARS_MS: i64 = 315_360_000_000;

/// All of a lock that a call could change, and the token clock.
#[derive(Debug, PartialEq)]
pub(crate) struct KeyState {
    value: Value,
    deadline: i64,
    last_token: i64,
}

/// The state of this key, whatever it holds.
#[track_caller]
pub(crate) fn state(c: &mut Connection, key: &str) -> KeyState {
    KeyState {
        value: cmd!(*c, "DUMP", key).value(),
        deadline: deadline(c, key),
        last_token: last_token(c),
    }
}

/// Makes a call and demands that it leaves the key and the token clock as they were.
#[track_caller]
pub(crate) fn unchanged(
    c: &mut Connection,
    key: &str,
    call: impl FnOnce(&mut Connection) -> Reply,
) -> Reply {
    let before = state(c, key);
    let reply = call(c);
    let after = state(c, key);
    assert_eq!(after, before, "changed by a call: {reply:?}");
    reply
}

/// Makes a call and demands that it sets the key's deadline to its own moment and this lease.
#[track_caller]
pub(crate) fn starts_lease(
    c: &mut Connection,
    key: &str,
    lease_ms: i64,
    call: impl FnOnce(&mut Connection) -> Reply,
) -> Reply {
    let earliest = now_ms() + lease_ms;
    let reply = call(c);
    let latest = now_ms() + lease_ms;
    let deadline = deadline(c, key);
    let due = earliest..=latest;
    assert!(due.contains(&deadline), "{deadline} is not in {due:?}");
    reply
}

/// The highest token that the server has seen, by its own word; 0 for none.
#[track_caller]
pub(crate) fn last_token(c: &mut Connection) -> i64 {
    lock_section(c, "lock_last_token")
}

/// A number of `INFO lock`.
#[track_caller]
pub(crate) fn lock_section(c: &mut Connection, field: &str) -> i64 {
    let text = cmd!(*c, "INFO", "lock").text();
    text.lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':')?.parse().ok())
        .unwrap_or_else(|| panic!("INFO lock has no {field}: {text}"))
}

/// A connection of the user `u`, who has these rules alone.
#[track_caller]
pub(crate) fn user(server: &Server, rules: &[&str]) -> Connection {
    let mut c = server.connection();
    cmd!(c, "ACL", "SETUSER", "u", "reset", "on", ">pw", rules).okay();
    server.connection_as("u", "pw")
}
