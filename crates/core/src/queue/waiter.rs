//! Who waits, for what, and how long.

use crate::keeping::Silence;
use crate::{Holds, Lease, Limit, Monotonic, OwnerBuf};

/// Identifies a waiting call. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub(super) u64);

impl WaiterId {
    /// No call has a lower one.
    pub const FIRST: Self = Self(0);
}

/// A waiting call: who waits, for what, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The owner that asks.
    pub owner: OwnerBuf,
    /// The lease asked for.
    pub lease: Option<Lease>,
    /// How many holds the caller wants to have afterwards.
    pub holds: Option<Holds>,
    /// How many holders the caller allows.
    pub limit: Limit,
    /// How long the connection may be silent that keeps the grant, if one is to.
    pub keep: Option<Silence>,
    /// The caller named the limit, and its reply tells the one in force.
    pub names_limit: bool,
    /// The connection that waits.
    pub client_id: u64,
    /// When the wait began.
    pub since: Monotonic,
    /// When it ends; `None` for never.
    pub until: Option<Monotonic>,
}

/// The waits for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWaits {
    /// How many.
    pub count: usize,
    /// The sum of the times when they began, in microseconds.
    pub since_sum: u128,
    /// When the first in the queue began.
    pub first_since: Monotonic,
}
