//! All that was recorded in a run.

use crate::Call;
use serde::{Deserialize, Serialize};

/// Microseconds since the run began, by the monotonic clock of the one machine that records.
pub type Moment = u64;

/// From one moment to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Not before.
    pub from: Moment,
    /// Not after.
    pub to: Moment,
}

impl Span {
    /// Between these two moments.
    #[must_use]
    pub fn new(from: Moment, to: Moment) -> Self {
        Self { from, to }
    }
}

/// The recorded calls.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// In any order.
    pub calls: Vec<Call>,
    /// Looks at queues.
    pub sightings: Vec<Sighting>,
    /// Writes to what the locks guard.
    pub writes: Vec<Write>,
    /// Where clients were told how long they may trust what they hold.
    pub trusts: Vec<Trust>,
    /// When sessions may have renewed grants.
    pub renewed: Vec<Renewed>,
    /// How programs polled their sessions.
    pub polls: Vec<Poll>,
    /// The faults of the servers.
    pub facts: Facts,
}

/// When the server may have renewed the grants of an owner, because of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renewed {
    /// The lock.
    pub key: String,
    /// The owner of the grants.
    pub owner: String,
    /// From just before the first call that named the session was sent, to a moment when the session certainly has
    /// the grant no more.
    pub span: Span,
}

/// A POLL of a session, or the OPEN that began it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The session.
    pub session: u64,
    /// The connection, of all that polled this session.
    pub connection: u64,
    /// Just before it was sent.
    pub sent: Moment,
    /// Just after the reply was read.
    pub ended: Moment,
    /// `sure-ms`, -1 for an OPEN; none where there was no reply, or an error.
    pub sure: Option<i64>,
    /// The grants that were lost or taken, as an event of the reply told: the key and the token.
    pub gone: Vec<(String, u64)>,
}

/// `LOCK.WAITERS` of a key: whose calls waited, first in line first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The lock.
    pub key: String,
    /// Just before it was asked for.
    pub sent: Moment,
    /// Just after the reply was read.
    pub ended: Moment,
    /// The clients. One that queues a call is known by the session and the owner.
    pub clients: Vec<u32>,
}

/// A time through which a client was told that it holds a lock, such as by a library that counts the
/// lease itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// The lock.
    pub key: String,
    /// The token that it was told to hold it with.
    pub token: u64,
    /// From the moment when it was told, to the end of what it was told, or to the moment before it
    /// began to give the lock back.
    pub span: Span,
}

/// The faults of the servers that affect the replies of locks.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// A server went down, or another took its place, and what it had acknowledged last may be lost.
    pub losses: Vec<Span>,
    /// Keys may have been evicted.
    pub evictions: Vec<Span>,
    /// Steps of the server's wall clock, in order.
    pub steps: Vec<ClockStep>,
}

/// The server's wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockStep {
    /// When.
    pub at: Span,
    /// How far it is ahead of the machine's clock from then on, in microseconds.
    pub ahead: i64,
}

/// A write to a fenced register: something that the lock of this key guards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Which one.
    pub register: Register,
    /// The lock, and the register's name.
    pub key: String,
    /// The token that the writer shows.
    pub token: u64,
    /// Just before it was sent.
    pub sent: Moment,
    /// Just after the answer, or when it can no longer happen.
    pub ended: Moment,
    /// The result.
    pub written: Written,
}

/// The two kinds of fenced registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Register {
    /// A key of the same server, written in a script behind `LOCK.FENCE`: only the current grant's
    /// token writes.
    Script,
    /// A row of an SQL database that takes a token which is not lower than the last one taken.
    Sql,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Written {
    /// It is there.
    Taken,
    /// The register refused the token.
    Refused,
    /// No answer.
    Unknown,
    /// An error that has to do with neither: nothing was written.
    Untouched,
}
