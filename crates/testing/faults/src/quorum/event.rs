//! What a contender is to do, and what it tells while it works: a line of JSON at once after each event,
//! so that nothing is lost with it when it is killed. Moments are those of the run.

use history::{Call, Moment, Write};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The task of a contender; its one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) number: u32,
    pub(crate) tasks: u32,
    pub(crate) seed: u64,
    /// When the run began, by [`crate::clock`].
    pub(crate) origin: Moment,
    /// Where the servers are to be reached.
    pub(crate) ports: Vec<u16>,
    /// The database with the fenced register.
    pub(crate) register: PathBuf,
    pub(crate) keys: Vec<String>,
    /// In milliseconds, the shortest and the longest.
    pub(crate) leases: (u64, u64),
    pub(crate) way: Way,
}

impl Orders {
    /// The number of a task as a client of the history.
    pub(crate) fn client(&self, task: u32) -> u32 {
        self.number * MOST_TASKS + task
    }
}

/// More tasks than a contender has.
const MOST_TASKS: u32 = 100;

/// The contender that a client of the history is a task of.
pub(crate) fn contender_of(client: u32) -> u32 {
    client / MOST_TASKS
}

/// The lease in milliseconds that counts for a lock which may be trusted until this moment: its holder gives it back then,
/// before the servers would take it away. It counts from the end of the call, because the servers may have granted the
/// lock at any time before that.
pub(crate) fn trusted_lease(lease: u64, ended: Moment, until: Moment) -> u64 {
    lease.min(until.saturating_sub(ended) / 1000)
}

/// How the locks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// With the Rust client's quorum.
    Quorum,
    /// With the Go client's quorum, on sessions.
    Go,
    /// By majority, but with nothing that tells the servers of one token.
    WithoutRaise,
}

/// One event of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// It is about to make a call, and is ready to wait for it for so many microseconds. As far as it
    /// knows by now, the call is lost.
    Sends { call: Call, patience: Moment },
    /// The call returned; an acquire perhaps without the lock for this reason.
    Ends { call: Call, reason: Option<String> },
    /// It may trust its lock until then.
    Trusts { client: u32, until: Moment },
    /// It was told that its lock is lost.
    Lost { client: u32, at: Moment },
    /// It wrote to the register.
    Wrote(Write),
}
