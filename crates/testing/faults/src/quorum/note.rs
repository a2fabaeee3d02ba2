//! What a contender tells while it works: a line of JSON at once after each event, so that nothing is
//! lost with it when it is killed. Moments are of [`crate::clock`].

use history::Moment;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Event a contender is to do; its one argument.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) number: u32,
    pub(crate) tasks: u32,
    pub(crate) seed: u64,
    /// Where the servers are to be reached.
    pub(crate) ports: Vec<u16>,
    /// The database with the fenced register.
    pub(crate) register: PathBuf,
    pub(crate) keys: Vec<String>,
    /// In milliseconds, the shortest and the longest.
    pub(crate) leases: (u64, u64),
    pub(crate) way: Way,
}

/// How the locks are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Way {
    /// With the Rust client's quorum.
    Quorum,
    /// By majority, but with nothing that tells the servers of one token.
    WithoutRaise,
}

/// One event of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Note {
    pub(crate) task: u32,
    pub(crate) key: String,
    pub(crate) event: Event,
}

/// Event it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Event {
    /// It asks for the lock, and is ready to wait for so many microseconds.
    Asks { sent: Moment, patience: u64 },
    /// It has it, with a lease in milliseconds, and may trust that until then.
    Granted {
        owner: String,
        token: u64,
        lease: u64,
        sent: Moment,
        ended: Moment,
        until: Moment,
    },
    /// It does not have it: the lock was not free in time, or for this reason.
    Denied {
        sent: Moment,
        ended: Moment,
        reason: Option<String>,
    },
    /// The lock has been renewed in the meantime: it may trust it until then.
    Trusts { token: u64, until: Moment },
    /// It was told that the lock is lost.
    Lost { token: u64, at: Moment },
    /// It wrote to the register.
    Wrote {
        token: u64,
        sent: Moment,
        ended: Moment,
        taken: bool,
    },
    /// It is about to give the lock back: said first, because it may be killed meanwhile.
    GivesBack { owner: String, sent: Moment },
    /// It gave the lock back.
    Released {
        owner: String,
        sent: Moment,
        ended: Moment,
        release: Release,
    },
}

/// Event came of giving it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Release {
    Done,
    /// It had been lost before.
    Late,
    /// It may have been, or not.
    Unknown,
}
