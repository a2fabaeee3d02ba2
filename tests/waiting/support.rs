//! Calls that wait, and what many of the tests ask of a server.

pub(crate) use testbed::{at_once, line, run};

use redis::{Cmd, Connection, Value};
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};
use testbed::{Expect, Grant, Kind, LockInfo, Server, Talk, cmd, eventually, waiters};

/// Runs these commands in one transaction, in which the server's time stands still, and gives their replies.
#[track_caller]
pub(crate) fn at_one_moment(c: &mut Connection, lines: &[&str]) -> Vec<Value> {
    let all: Vec<_> = [&["MULTI"], lines, &["EXEC"]].concat();
    let exec = at_once(c, &all).pop().expect("a reply to EXEC");
    exec.items()
}

/// A connection whose call waits for a lock.
pub(crate) struct Waiter {
    /// What `CLIENT ID` says.
    pub(crate) id: i64,
    connection: Connection,
}

impl Deref for Waiter {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Waiter {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Waiter {
    /// Posts a call, and returns once the server has blocked its client.
    #[track_caller]
    pub(crate) fn on(server: &Server, connection: Connection, call: &Cmd) -> Self {
        let mut connection = connection;
        let id = cmd!(connection, "CLIENT", "ID").int();
        connection.post(call);
        let waiter = Self { id, connection };
        let mut c = server.connection();
        eventually(|| waiter.is_blocked(&mut c), "a call to wait");
        waiter
    }

    /// Whether the server has this client blocked.
    #[track_caller]
    pub(crate) fn is_blocked(&self, c: &mut Connection) -> bool {
        let list = cmd!(*c, "CLIENT", "LIST", "ID", self.id).text();
        list.split(' ')
            .find_map(|field| field.strip_prefix("flags="))
            .is_some_and(|flags| flags.contains('b'))
    }

    /// The grant that the call gets.
    #[track_caller]
    pub(crate) fn granted(&mut self) -> Grant {
        self.receive().grant()
    }
}

/// A call that waits: `LOCK.ACQUIRE` with these words behind it.
#[track_caller]
pub(crate) fn wait(server: &Server, words: &str) -> Waiter {
    let call = line(&format!("LOCK.ACQUIRE {words}"));
    Waiter::on(server, server.connection(), &call)
}

/// Calls that wait for `k` forever and then hold it for ten minutes, by owner.
#[track_caller]
pub(crate) fn wait_as<const N: usize>(server: &Server, owners: [&str; N]) -> [Waiter; N] {
    owners.map(|owner| wait(server, &format!("k {owner} PX 600000 BLOCK 0")))
}

/// The owners in the queue of `k`, by `LOCK.WAITERS`.
#[track_caller]
pub(crate) fn queue(c: &mut Connection) -> Vec<String> {
    waiters(c, "k")
}

/// What `LOCK.INFO k` says.
#[track_caller]
pub(crate) fn info(c: &mut Connection) -> LockInfo {
    run(c, "LOCK.INFO k").lock_info()
}

/// Who holds `k`.
#[track_caller]
pub(crate) fn owner(c: &mut Connection) -> String {
    info(c).owner.text()
}

trait Text {
    fn text(self) -> String;
}

impl Text for Vec<u8> {
    fn text(self) -> String {
        String::from_utf8(self).expect("text")
    }
}

/// The clients that the server has blocked.
#[track_caller]
pub(crate) fn blocked_clients(server: &Server) -> i64 {
    let count = server.info_field("clients", "blocked_clients");
    count.parse().expect("a count")
}

/// Demands that nobody waits any more, by the server's own count and the module's.
#[track_caller]
pub(crate) fn nobody_waits(server: &Server) {
    let mut c = server.connection();
    eventually(|| blocked_clients(server) == 0, "no client to be blocked");
    assert_eq!(queue(&mut c), [""; 0]);
}

/// Whether this server can unblock a module's client safely.
pub(crate) fn unblocks() -> bool {
    let version = Server::version();
    version.kind == Kind::Valkey || version.is_redis_from(7, 4)
}

/// How long this takes, and what it gives.
pub(crate) fn timed<T>(body: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = body();
    (start.elapsed(), result)
}
