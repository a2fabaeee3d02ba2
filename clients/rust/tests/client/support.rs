//! What most tests need.

use redis_lock_client::{Builder, Error, ErrorKind, Guard, Lock, Locks};
use std::collections::HashMap;
use std::time::Duration;
use testbed::redis::Value;
use testbed::{Expect, LockInfo, Server, cmd, eventually};
use tokio::task::JoinHandle;

/// Long enough to play no part.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Settings for tests.
pub(crate) fn settings() -> Builder {
    Locks::builder().service("test")
}

pub(crate) fn locks(server: &Server) -> Locks {
    locks_at(server.port(), settings())
}

pub(crate) fn locks_at(port: u16, settings: Builder) -> Locks {
    settings.single(("127.0.0.1", port)).expect("locks")
}

/// The locks of a user who has these rights.
pub(crate) fn locks_of(server: &Server, rights: &str, settings: Builder) -> Locks {
    let user = format!("ACL SETUSER worker on >x ~* {rights}");
    testbed::run(&mut server.connection(), &user).okay();
    let url = format!("redis://worker:x@127.0.0.1:{}/", server.port());
    settings.single(url).expect("locks")
}

/// Acquires a lock and releases it, so that there are a session and connections.
pub(crate) async fn take_once(locks: &Locks, key: &str) {
    let guard = locks.lock(key).acquire().await.expect("a lock");
    guard.release().await.expect("a release");
}

/// Acquires a lock in the background.
pub(crate) fn waiting(lock: &Lock) -> JoinHandle<Result<Guard, Error>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await })
}

pub(crate) async fn granted(waiting: JoinHandle<Result<Guard, Error>>) -> Guard {
    waiting.await.expect("a task").expect("a lock")
}

/// The same, once it is the last of so many waiters.
pub(crate) fn in_line(
    server: &Server,
    lock: &Lock,
    count: usize,
) -> JoinHandle<Result<Guard, Error>> {
    let waiting = waiting(lock);
    await_waiters(server, &String::from_utf8_lossy(lock.key()), count);
    waiting
}

pub(crate) fn await_waiters(server: &Server, key: &str, count: usize) {
    eventually(
        || testbed::waiters(&mut server.connection(), key).len() == count,
        "the waiters",
    );
}

pub(crate) fn await_free(server: &Server, key: &str) {
    eventually(|| is_free(server, key), "the lock to be free");
}

/// What the server says of a lock that is held.
pub(crate) fn info(server: &Server, key: &str) -> LockInfo {
    cmd!(server.connection(), "LOCK.INFO", key).lock_info()
}

pub(crate) fn is_free(server: &Server, key: &str) -> bool {
    cmd!(server.connection(), "EXISTS", key).int() == 0
}

pub(crate) fn delete(server: &Server, key: &str) {
    assert_eq!(cmd!(server.connection(), "DEL", key).int(), 1);
}

/// The sessions that are open.
pub(crate) fn sessions(server: &Server) -> Vec<HashMap<String, Value>> {
    let sessions = cmd!(server.connection(), "LOCK.SESSION", "LIST").items();
    sessions
        .into_iter()
        .map(|session| session.fields().into_iter().collect())
        .collect()
}

pub(crate) fn kill_sessions(server: &Server) {
    for session in sessions(server) {
        let id = session["id"].clone().int();
        cmd!(server.connection(), "LOCK.SESSION", "KILL", id).int();
    }
}

/// How often a command has been called.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.info("commandstats");
    let line = stats.get(&format!("cmdstat_{command}"));
    let count = line.and_then(|line| line.strip_prefix("calls=")?.split(',').next()?.parse().ok());
    count.unwrap_or(0)
}

#[track_caller]
pub(crate) fn is<T: std::fmt::Debug>(result: Result<T, Error>, kind: ErrorKind) -> Error {
    let error = result.expect_err("a failure");
    assert_eq!(error.kind(), kind, "{error}");
    error
}
