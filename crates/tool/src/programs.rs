//! The programs that use a server, which are known by their sessions, and what they hold and wait for.

use crate::{record, words};
use redis::Cmd;

/// A program that has not polled for this long counts as frozen, and its calls are passed over.
const FROZEN_MS: i64 = 1000;

record! {
    /// A program: an element of `LOCK.SESSION LIST`.
    pub struct Program {
        /// The session.
        id: i64,
        /// The name, which may be empty.
        name: Vec<u8>,
        /// The client id of the connection that polls; 0 for none.
        client_id: i64,
        /// The ACL user.
        user: Vec<u8>,
        /// How long ago the server last heard from it.
        idle_ms: i64,
        /// How long it has been open.
        age_ms: i64,
        /// How many grants it has.
        grants: i64,
        /// How many of its calls wait.
        waiting: i64,
        /// How many events it has not acknowledged.
        events: i64,
    }
}

record! {
    /// A grant of a program: an element of `LOCK.SESSION GRANTS`.
    pub struct ProgramGrant {
        /// The lock.
        key: Vec<u8>,
        /// Its holder.
        owner: Vec<u8>,
        /// The time left of the lease; -1 if the lease does not end.
        ttl_ms: i64,
    }
}

record! {
    /// A waiting call: an element of `LOCK.WAITERS`.
    pub struct Waiter {
        /// The owner of the call.
        owner: Vec<u8>,
        /// The client id of the blocked client. For a queued call the client that polls its session, or 0.
        client_id: i64,
        /// How long it has waited.
        waited_ms: i64,
        /// The time left until the wait times out; -1 if it never does.
        left_ms: i64,
        /// The session of the call; 0 for none.
        session: i64,
    }
}

/// Whether a program polls its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The connection is closed, so the grants are not renewed and the calls are passed over.
    Detached,
    /// The connection is open but the program does not poll, so its calls are passed over.
    Frozen,
    /// The program polls.
    Polls,
}

impl State {
    /// The name of the state.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Detached => "detached",
            Self::Frozen => "frozen",
            Self::Polls => "polls",
        }
    }
}

impl Program {
    /// Whether the program polls its session.
    pub const fn state(&self) -> State {
        match (self.client_id, self.idle_ms) {
            (0, _) => State::Detached,
            (_, FROZEN_MS..) => State::Frozen,
            _ => State::Polls,
        }
    }

    /// The name of the program, or its session if it has no name.
    pub fn label(&self) -> String {
        match self.name.as_slice() {
            [] => self.id.to_string(),
            name => words::name(name),
        }
    }

    /// Whether the program holds locks or waits for some, but does not poll.
    pub fn is_stuck(&self) -> bool {
        self.state() != State::Polls && self.grants + self.waiting > 0
    }
}

/// A command of several words.
pub fn command(words: &str) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words.split(' ').collect::<Vec<_>>());
    command
}

/// A command on one key.
pub fn on(name: &str, key: &[u8]) -> Cmd {
    redis::cmd(name).arg(key).to_owned()
}

/// The command that lists at most `count` calls that wait for a lock. Its elements are [`Waiter`]s.
pub fn waiters_of(key: &[u8], count: usize) -> Cmd {
    on("LOCK.WAITERS", key).arg("COUNT").arg(count).to_owned()
}
