//! What most tests need.

use redis_lock_client::{Builder, Locks};
use std::time::{Duration, Instant};
use testbed::{Expect, Load, LockInfo, Server, cmd};

/// The time that passes, and what a busy machine adds to it.
pub(crate) struct Watch {
    begun: Instant,
    load: Load,
}

impl Watch {
    /// Begins, with the load of this server's process too.
    pub(crate) fn on(server: &Server) -> Self {
        Self::with(Load::on(server))
    }

    /// Begins, with the load of this process alone.
    pub(crate) fn here() -> Self {
        Self::with(Load::here())
    }

    fn with(load: Load) -> Self {
        let begun = Instant::now();
        Self { begun, load }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// What is held against an upper limit: the time that has passed, but for what the machine has added.
    pub(crate) fn own(&self) -> Duration {
        self.elapsed().saturating_sub(self.load.so_far())
    }
}

/// Long enough to play no part.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Settings for tests: waits and leases that end no test by themselves.
pub(crate) fn settings() -> Builder {
    Locks::builder().service("test").lease(LONG).wait(LONG)
}

pub(crate) fn locks(server: &Server) -> Locks {
    locks_at(server.port(), settings())
}

pub(crate) fn locks_at(port: u16, settings: Builder) -> Locks {
    settings.single(("127.0.0.1", port)).expect("a locks")
}

/// What the server says of a lock that is held.
pub(crate) fn info(server: &Server, key: &str) -> LockInfo {
    cmd!(server.connection(), "LOCK.INFO", key).lock_info()
}

pub(crate) fn is_free(server: &Server, key: &str) -> bool {
    cmd!(server.connection(), "EXISTS", key).int() == 0
}

/// The id of the connection that keeps this lock, 0 for none.
pub(crate) fn kept_by(server: &Server, key: &str) -> i64 {
    let holders = cmd!(server.connection(), "LOCK.HOLDERS", key).items();
    let first = holders.into_iter().next();
    first.map_or(0, |holder| holder.fields()["kept-by"].clone().int())
}

/// Ends the connections of all clients.
pub(crate) fn end_connections(server: &Server) {
    let mut own = server.connection();
    cmd!(own, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").int();
}

/// The owners in the line, the first one first.
pub(crate) fn waiters(server: &Server, key: &str) -> Vec<String> {
    testbed::waiters(&mut server.connection(), key)
}

/// How often a command has been called.
pub(crate) fn calls(server: &Server, command: &str) -> u64 {
    let stats = server.info("commandstats");
    let line = stats.get(&format!("cmdstat_{command}"));
    let count = line.and_then(|line| line.strip_prefix("calls=")?.split(',').next()?.parse().ok());
    count.unwrap_or(0)
}
