//! Who waits, for what, and how long.

use std::sync::Arc;
use std::time::Duration;

use crate::keeping::Silence;
use crate::{Holds, Lease, Limit, OwnerBuf};

/// A time of a monotonic clock, in microseconds since some start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// The time `length` later.
    #[must_use]
    pub fn plus(self, length: Duration) -> Self {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The time passed since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Identifies a waiting call. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(pub(super) u64);

/// A waiting call: who waits, for what, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The owner that asks.
    pub owner: OwnerBuf,
    /// The lease asked for.
    pub lease: Option<Lease>,
    /// How many holds the caller wants to have afterwards.
    pub holds: Option<Holds>,
    /// How many holders the caller bears.
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

/// A lock's identity: a key of a database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    /// The database's number.
    pub database: i32,
    /// The key's name.
    pub key: Arc<[u8]>,
}

impl LockId {
    /// The lock of this key of this database.
    #[must_use]
    pub fn new(database: i32, key: &[u8]) -> Self {
        Self {
            database,
            key: Arc::from(key),
        }
    }

    /// True for this key of this database.
    #[must_use]
    pub fn is(&self, database: i32, key: &[u8]) -> bool {
        self.database == database && *self.key == *key
    }

    /// The lowest of all in their order.
    pub(crate) fn before_all() -> Self {
        Self {
            database: i32::MIN,
            key: Arc::from([]),
        }
    }
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
