//! What is asked for, and what is granted.

use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Who else may hold the lock at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Nobody.
    #[default]
    Exclusive,
    /// Others that share it.
    Shared,
    /// So many in all.
    Limit(u32),
}

/// How long a grant lives on while nobody releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    /// How long others wait when this process has died.
    pub(crate) lease: Duration,
    /// How long this process may be silent while the server renews the grant; none for a fixed lease.
    pub(crate) keep: Option<Duration>,
    /// How long it is kept at most.
    pub(crate) at_most: Option<Duration>,
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: String,
    /// The owner is used for more than this one call.
    pub(crate) is_owner_chosen: bool,
    pub(crate) mode: Mode,
    pub(crate) life: Life,
    pub(crate) wait: Wait,
    /// How many replicas must have it.
    pub(crate) replicas: u32,
    /// Closed when it is over, the giving back of what it may have got included.
    pub(crate) over: Option<Over>,
}

/// Somebody waits until all of these are dropped.
pub(crate) type Over = mpsc::Sender<Infallible>;

/// How long to wait for a lock that is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all.
    No,
    /// At most this long.
    AtMost(Duration),
    /// As long as it takes.
    Forever,
}

impl Wait {
    /// When it ends; `now` is how long a call may take that does not wait.
    pub(crate) fn until(self, now: Duration) -> Option<Instant> {
        let start = Instant::now();
        match self {
            Self::No => start.checked_add(now),
            Self::AtMost(wait) => start.checked_add(wait),
            Self::Forever => None,
        }
    }

    /// What is left of it at this moment, when it ends then.
    pub(crate) fn rest(self, until: Option<Instant>) -> Self {
        match (self, until) {
            (Self::AtMost(_), Some(until)) => match until - Instant::now() {
                Duration::ZERO => Self::No,
                left => Self::AtMost(left),
            },
            _ => self,
        }
    }
}

/// One unbroken ownership of a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: String,
    pub(crate) token: u64,
}

/// A grant as it stands.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) grant: Grant,
    /// How many times the owner holds the lock now.
    pub(crate) holds: u32,
    /// The lease that the server remembers.
    pub(crate) lease: Duration,
    /// Until when it is known to stand: counted from the sending of the call.
    pub(crate) known_until: Instant,
}

/// What a renewal changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) lease: Option<Duration>,
    /// Who keeps it from now on: zero for nobody.
    pub(crate) keep: Option<Duration>,
    /// The grant is shared from now on.
    pub(crate) shares: bool,
}
