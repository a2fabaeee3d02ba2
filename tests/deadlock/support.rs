//! A server with holders and waiters, in a few words.

use redis::Connection;
use testbed::{Expect, Grant, LockInfo, Server, cmd};

pub(crate) use crate::waiting::{Waiter, at_once, line, run};

/// A server, and the calls that wait on it.
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) c: Connection,
    waiters: Vec<(String, Waiter)>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::on(Server::start())
    }

    pub(crate) fn on(server: Server) -> Self {
        let c = server.connection();
        Self {
            server,
            c,
            waiters: Vec::new(),
        }
    }

    /// Each of these calls (`key owner` and options; `1/key` in database 1) takes its lock.
    #[track_caller]
    pub(crate) fn hold<const N: usize>(&mut self, calls: [&str; N]) -> [Grant; N] {
        calls.map(|call| {
            let (mut c, words) = self.place(call);
            run(&mut c, &format!("LOCK.ACQUIRE {words} PX 600000")).grant()
        })
    }

    /// Each of these calls waits for its lock.
    #[track_caller]
    pub(crate) fn wait<const N: usize>(&mut self, calls: [&str; N]) {
        for call in calls {
            let (c, words) = self.place(call);
            let command = line(&format!("LOCK.ACQUIRE {words} PX 600000 BLOCK 0"));
            let waiter = Waiter::on(&self.server, c, &command);
            self.waiters.push((call.to_owned(), waiter));
        }
    }

    /// A call that is told that it would wait in a cycle of so many owners.
    #[track_caller]
    pub(crate) fn told(&mut self, call: &str, owners: usize) {
        let (mut c, words) = self.place(call);
        // Where it is not told, it need not wait for long.
        let reply = run(&mut c, &format!("LOCK.ACQUIRE {words} BLOCK 10000"));
        assert_eq!(reply.refused("DEADLOCK"), text(owners), "{call}");
    }

    /// A call that waits is granted, and waits no more.
    #[track_caller]
    pub(crate) fn granted(&mut self, call: &str) -> Grant {
        self.waiter(call).granted()
    }

    /// The reply of a call that has waited.
    #[track_caller]
    pub(crate) fn waiter(&mut self, call: &str) -> Waiter {
        let index = self.waiters.iter().position(|(words, _)| words == call);
        let index = index.unwrap_or_else(|| panic!("{call:?} does not wait"));
        self.waiters.remove(index).1
    }

    /// The client of a call that waits.
    #[track_caller]
    pub(crate) fn waiter_id(&self, call: &str) -> i64 {
        let mut waiters = self.waiters.iter();
        waiters
            .find(|(words, _)| words == call)
            .expect("a call that waits")
            .1
            .id
    }

    /// Demands that all calls still wait that have not been asked for.
    #[track_caller]
    pub(crate) fn all_wait(&mut self) {
        for (call, waiter) in &self.waiters {
            assert!(waiter.is_blocked(&mut self.c), "{call} does not wait");
        }
        let count = crate::waiting::blocked_clients(&self.server);
        assert_eq!(usize::try_from(count).unwrap(), self.waiters.len());
    }

    /// Runs a command in the first database.
    #[track_caller]
    pub(crate) fn run(&mut self, words: &str) -> testbed::Reply {
        run(&mut self.c, words)
    }

    /// What `LOCK.INFO` says of a lock of the first database.
    #[track_caller]
    pub(crate) fn info(&mut self, key: &str) -> LockInfo {
        cmd!(self.c, "LOCK.INFO", key).lock_info()
    }

    /// How many calls were told, by the server's own count.
    pub(crate) fn count(&self) -> usize {
        let count = self.server.info_field("lock", "lock_deadlocks");
        count.parse().expect("a count")
    }

    /// A connection to the database of a call, and the call's words.
    #[track_caller]
    fn place<'a>(&self, call: &'a str) -> (Connection, &'a str) {
        let mut c = self.server.connection();
        let Some((database, words)) = call.split_once('/') else {
            return (c, call);
        };
        cmd!(c, "SELECT", database).okay();
        (c, words)
    }
}

/// The error of a caller whose wait would close a cycle of this many owners.
pub(crate) fn text(owners: usize) -> String {
    format!(
        "DEADLOCK waiting would create a deadlock cycle of {owners} owners: \
         release something first"
    )
}
