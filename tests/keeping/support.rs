//! Connections that keep grants, and how they are closed.

pub(crate) use testbed::run;

use redis::Connection;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};
use testbed::{Expect, Grant, Reply, Server, Talk, cmd, eventually, line, patience, within};

/// The longest that anything may take which is to happen at once or in a few seconds, on a busy machine.
const SOON: Duration = Duration::from_secs(20);

/// A connection that keeps grants.
pub(crate) struct Keeper {
    /// What `CLIENT ID` says.
    pub(crate) id: i64,
    connection: Connection,
}

impl Deref for Keeper {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Keeper {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Keeper {
    pub(crate) fn of(mut connection: Connection) -> Self {
        let id = cmd!(connection, "CLIENT", "ID").int();
        Self { id, connection }
    }

    /// A connection that has asked for this: `LOCK.ACQUIRE` with these words behind it.
    #[track_caller]
    pub(crate) fn on(server: &Server, words: &str) -> Self {
        let mut keeper = Self::of(server.connection());
        keeper.acquire(words);
        keeper
    }

    #[track_caller]
    pub(crate) fn acquire(&mut self, words: &str) -> Grant {
        run(&mut self.connection, &format!("LOCK.ACQUIRE {words}")).grant()
    }

    #[track_caller]
    pub(crate) fn renew(&mut self, words: &str) -> Grant {
        run(&mut self.connection, &format!("LOCK.RENEW {words}")).grant()
    }

    /// Demands that a PING gets its PONG.
    #[track_caller]
    pub(crate) fn is_answered(&mut self) {
        assert_eq!(cmd!(self.connection, "PING").text(), "PONG");
    }

    /// Sends these in one write, as far as the connection takes it: it may be closed already.
    pub(crate) fn throw(&mut self, lines: &[&str]) {
        let _ = self.connection.send_packed_command(&packed(lines));
    }

    /// Waits until the server has closed the connection, and demands that nothing came before that.
    #[track_caller]
    pub(crate) fn is_closed(&mut self) -> Instant {
        match self.next() {
            None => Instant::now(),
            Some(reply) => panic!("{reply:?} before the connection was closed"),
        }
    }

    /// The next reply; none when the connection is closed.
    #[track_caller]
    pub(crate) fn next(&mut self) -> Option<Reply> {
        let limit = patience(SOON);
        self.set_read_timeout(Some(limit)).expect("a time limit");
        let next = self.recv_response();
        match next {
            Ok(value) => {
                self.set_read_timeout(None).expect("no time limit");
                Some(value.reply())
            }
            Err(error) if error.is_timeout() => panic!("neither a reply nor closed"),
            Err(_) => None,
        }
    }
}

fn packed(lines: &[&str]) -> Vec<u8> {
    let commands = lines.iter().map(|words| line(words).get_packed_command());
    commands.flatten().collect()
}

/// Sends these commands in one write, and gives their replies.
#[track_caller]
pub(crate) fn at_once(c: &mut Connection, lines: &[&str]) -> Vec<Reply> {
    c.send_packed_command(&packed(lines))
        .expect("a connection to write to");
    lines.iter().map(|_| c.receive()).collect()
}

/// Runs these commands in one transaction, in which the server's time stands still, and gives their replies.
#[track_caller]
pub(crate) fn at_one_moment(c: &mut Connection, lines: &[&str]) -> Vec<redis::Value> {
    let all: Vec<_> = [&["MULTI"], lines, &["EXEC"]].concat();
    let exec = at_once(c, &all).pop().expect("a reply to EXEC");
    exec.items()
}

/// While the server's process stands still, this is done.
pub(crate) fn while_stopped<T>(server: &Server, body: impl FnOnce() -> T) -> T {
    server.signal("STOP");
    let state = || std::fs::read_to_string(format!("/proc/{}/stat", server.pid()));
    eventually(
        || state().is_ok_and(|state| state.contains(") T ")),
        "the server to stand still",
    );
    let result = body();
    server.signal("CONT");
    result
}

/// A field of `INFO lock`.
#[track_caller]
pub(crate) fn count(server: &Server, field: &str) -> i64 {
    counted(&mut server.connection(), field)
}

/// A field of `INFO lock`, asked for on this connection.
#[track_caller]
pub(crate) fn counted(c: &mut Connection, field: &str) -> i64 {
    let section = run(c, "INFO lock").text();
    let field = format!("lock_{field}:");
    let count = section.lines().find_map(|line| line.strip_prefix(&field));
    let count = count.unwrap_or_else(|| panic!("no {field} in {section}"));
    count.parse().expect("a number")
}

/// Waits until the server has renewed kept grants so many times more.
#[track_caller]
pub(crate) fn await_renewals(server: &Server, more: i64) {
    let before = count(server, "kept_renewals");
    within(
        Duration::from_secs(60),
        || count(server, "kept_renewals") >= before + more,
        "renewals",
    );
}

/// Who keeps each holder's grant of `k`, and for how long it may be silent.
#[track_caller]
pub(crate) fn kept_by(c: &mut Connection) -> Vec<(i64, i64)> {
    let holders = run(c, "LOCK.HOLDERS k").items();
    let kept = |holder: redis::Value| {
        let fields = holder.fields();
        let number = |name: &str| fields[name].clone().int();
        (number("kept-by"), number("keep-ms"))
    };
    holders.into_iter().map(kept).collect()
}

/// When the lease of `k` ends, in milliseconds since 1970.
#[track_caller]
pub(crate) fn end_of_lease(c: &mut Connection) -> i64 {
    run(c, "PEXPIRETIME k").int()
}

/// Demands that `a` holds `k` with this token.
#[track_caller]
pub(crate) fn stands(c: &mut Connection, token: i64) {
    cmd!(*c, "LOCK.FENCE", "k", token).okay();
}
