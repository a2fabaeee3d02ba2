//! A server with holders and waiters, in a few words.

use redis::Connection;
use testbed::{
    Expect, Grant, LockInfo, Reply, Server, Waiter, at_once, blocked_clients, cmd, run, wait_on,
};

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

    /// A call of `a` for `j` would close a cycle of two, by waiting: `b`, who has it, waits for `k`.
    pub(crate) fn cycle() -> Self {
        Self::new().with_cycle()
    }

    /// The same on this server.
    pub(crate) fn with_cycle(mut self) -> Self {
        self.hold(["k a", "j b"]);
        self.wait(["k b"]);
        self
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
            let waiter = wait_on(&self.server, c, &format!("{words} PX 600000 BLOCK 0"));
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
        let found = self.waiters.iter().find(|(words, _)| words == call);
        found.expect("a call that waits").1.id
    }

    /// The reply of `w`, which asks for `k` right after these, in one write.
    #[track_caller]
    pub(crate) fn asked_after(&mut self, changes: &[impl AsRef<str>]) -> Reply {
        let changes = changes.iter().map(AsRef::as_ref);
        let lines: Vec<&str> = changes.chain(["LOCK.ACQUIRE k w BLOCK 30"]).collect();
        let mut replies = at_once(&mut self.c, &lines);
        let last = replies.pop().expect("a reply");
        for (reply, line) in replies.into_iter().zip(lines) {
            assert!(reply.is_ok(), "{line}: {reply:?}");
        }
        last
    }

    /// Demands that all calls still wait that have not been asked for.
    #[track_caller]
    pub(crate) fn all_wait(&mut self) {
        for (call, waiter) in &self.waiters {
            assert!(waiter.is_blocked(&mut self.c), "{call} does not wait");
        }
        let count = blocked_clients(&self.server);
        assert_eq!(usize::try_from(count).unwrap(), self.waiters.len());
    }

    /// Runs a command in the first database.
    #[track_caller]
    pub(crate) fn run(&mut self, words: &str) -> Reply {
        run(&mut self.c, words)
    }

    /// What `LOCK.INFO` says of a lock of the first database.
    #[track_caller]
    pub(crate) fn info(&mut self, key: &str) -> LockInfo {
        cmd!(self.c, "LOCK.INFO", key).lock_info()
    }

    /// How many calls were told, by the server's own count.
    pub(crate) fn count(&self) -> i64 {
        self.server.count("deadlocks")
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
