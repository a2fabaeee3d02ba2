//! The programs that use a server, by their sessions: what they hold and what they wait for.

use crate::{record, words};
use redis::Cmd;

/// A call of a session that does not poll for so long is passed over, and the program that should poll is frozen.
const FROZEN_MS: i64 = 1000;

record! {
    /// A program: an element of `LOCK.SESSION LIST`.
    pub struct Program {
        /// The session.
        id: i64,
        /// Its name, which may be empty.
        name: Vec<u8>,
        /// The connection that polls it; 0: none.
        client_id: i64,
        /// Its ACL user.
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
        /// The time left of the lease; -1: it does not end.
        ttl_ms: i64,
    }
}

record! {
    /// A waiting call: an element of `LOCK.WAITERS`.
    pub struct Waiter {
        /// For whom it waits.
        owner: Vec<u8>,
        /// The client that is blocked; of a queued call, the connection that polls its session, or 0.
        client_id: i64,
        /// How long it has waited.
        waited_ms: i64,
        /// How long it will go on; -1: without end.
        left_ms: i64,
        /// The session of the call; 0: none.
        session: i64,
    }
}

/// Whether a program polls its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Its connection is closed: its grants are not renewed, and its calls are passed over.
    Detached,
    /// Its connection is open, but it does not poll: its calls are passed over.
    Frozen,
    /// It polls.
    Polls,
}

impl State {
    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Detached => "detached",
            Self::Frozen => "frozen",
            Self::Polls => "polls",
        }
    }
}

impl Program {
    /// Whether it polls its session.
    pub const fn state(&self) -> State {
        match (self.client_id, self.idle_ms) {
            (0, _) => State::Detached,
            (_, FROZEN_MS..) => State::Frozen,
            _ => State::Polls,
        }
    }

    /// Its name; its session where it has none.
    pub fn label(&self) -> String {
        match self.name.as_slice() {
            [] => self.id.to_string(),
            name => words::name(name),
        }
    }

    /// Whether it holds locks or waits for some, and does not poll.
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

/// Asks for the calls that wait for a lock, at most so many: elements are [`Waiter`]s.
pub fn waiters_of(key: &[u8], count: usize) -> Cmd {
    on("LOCK.WAITERS", key).arg("COUNT").arg(count).to_owned()
}
