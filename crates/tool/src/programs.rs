//! The programs that use a server, by their sessions: what they hold and what they wait for.

use crate::{Reply, items};
use redis::{Cmd, Value};

/// A call of a session that does not poll for so long is passed over, and the program that should poll is frozen.
const FROZEN_MS: i64 = 1000;

/// A program: an element of `LOCK.SESSION LIST`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The session.
    pub id: i64,
    /// Its name, which may be empty.
    pub name: Vec<u8>,
    /// The connection that polls it; 0: none.
    pub client_id: i64,
    /// Its ACL user.
    pub user: Vec<u8>,
    /// How long ago the server last heard from it.
    pub idle_ms: i64,
    /// How long it has been open.
    pub age_ms: i64,
    /// How many grants it has.
    pub grants: i64,
    /// How many of its calls wait.
    pub waiting: i64,
    /// How many events it has not acknowledged.
    pub events: i64,
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
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Detached => "detached",
            Self::Frozen => "frozen",
            Self::Polls => "polls",
        }
    }
}

impl Program {
    fn read(value: &Value) -> Option<Self> {
        let fields = Reply::read(value)?;
        Some(Self {
            id: fields.number("id")?,
            name: fields.bytes("name")?,
            client_id: fields.number("client-id")?,
            user: fields.bytes("user")?,
            idle_ms: fields.number("idle-ms")?,
            age_ms: fields.number("age-ms")?,
            grants: fields.number("grants")?,
            waiting: fields.number("waiting")?,
            events: fields.number("events")?,
        })
    }

    /// Whether it polls its session.
    #[must_use]
    pub const fn state(&self) -> State {
        match (self.client_id, self.idle_ms) {
            (0, _) => State::Detached,
            (_, FROZEN_MS..) => State::Frozen,
            _ => State::Polls,
        }
    }

    /// Whether it holds locks or waits for some, and does not poll.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.state() != State::Polls && self.grants + self.waiting > 0
    }
}

/// A grant of a program: an element of `LOCK.SESSION GRANTS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramGrant {
    /// The lock.
    pub key: Vec<u8>,
    /// Its holder.
    pub owner: Vec<u8>,
    /// The time left of the lease; -1: it does not end.
    pub ttl_ms: i64,
}

/// A waiting call: an element of `LOCK.WAITERS`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiter {
    /// For whom it waits.
    pub owner: Vec<u8>,
    /// The client that is blocked; of a queued call, the connection that polls its session, or 0.
    pub client_id: i64,
    /// How long it has waited.
    pub waited_ms: i64,
    /// How long it will go on; -1: without end.
    pub left_ms: i64,
    /// The session of the call; 0: none.
    pub session: i64,
}

/// A command of several words.
#[must_use]
pub fn command(words: &str) -> Cmd {
    let mut command = Cmd::new();
    command.arg(words.split(' ').collect::<Vec<_>>());
    command
}

/// A command on one key.
#[must_use]
pub fn on(name: &str, key: &[u8]) -> Cmd {
    redis::cmd(name).arg(key).to_owned()
}

/// Asks for the calls that wait for a lock, at most so many: see [`waiters`].
#[must_use]
pub fn waiters_of(key: &[u8], count: usize) -> Cmd {
    on("LOCK.WAITERS", key).arg("COUNT").arg(count).to_owned()
}

/// The programs in a reply of `LOCK.SESSION LIST`.
#[must_use]
pub fn programs(reply: &Value) -> Vec<Program> {
    items(reply).iter().filter_map(Program::read).collect()
}

/// The grants in a reply of `LOCK.SESSION GRANTS`.
#[must_use]
pub fn grants(reply: &Value) -> Vec<ProgramGrant> {
    let grant = |value| {
        let fields = Reply::read(value)?;
        Some(ProgramGrant {
            key: fields.bytes("key")?,
            owner: fields.bytes("owner")?,
            ttl_ms: fields.number("ttl-ms")?,
        })
    };
    items(reply).iter().filter_map(grant).collect()
}

/// The calls in a reply of `LOCK.WAITERS`.
#[must_use]
pub fn waiters(reply: &Value) -> Vec<Waiter> {
    let waiter = |value| {
        let fields = Reply::read(value)?;
        Some(Waiter {
            owner: fields.bytes("owner")?,
            client_id: fields.number("client-id")?,
            waited_ms: fields.number("waited-ms")?,
            left_ms: fields.number("left-ms")?,
            session: fields.number("session")?,
        })
    };
    items(reply).iter().filter_map(waiter).collect()
}
