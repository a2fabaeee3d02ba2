//! What is asked for, and what is granted.

use crate::Error;
use crate::owner::Owner;
use crate::server::commands::after;
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

/// Refuses what the server would take for something else: a lease that nobody keeps, a lock that all share.
pub(crate) fn check(life: Life, mode: Mode) -> Result<(), Error> {
    if life.keep == Some(Duration::ZERO) {
        return Err(Error::misuse("what is kept bears some silence"));
    }
    if mode == Mode::Limit(0) {
        return Err(Error::misuse("there is one permit at least"));
    }
    Ok(())
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) key: Vec<u8>,
    /// By this name.
    pub(crate) owner: String,
    /// Whose that is.
    pub(crate) whose: Owner,
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
    /// Not at all; an answer is to come until then.
    Now(Instant),
    /// Until then.
    Until(Instant),
    /// As long as it takes.
    Forever,
}

impl Wait {
    /// From this moment on for so long; `now` is how long a call may take that does not wait.
    pub(crate) fn of(time: Duration, now: Duration) -> Self {
        let start = Instant::now();
        match time {
            Duration::ZERO => Self::Now(after(start, now)),
            Duration::MAX => Self::Forever,
            time => Self::Until(after(start, time)),
        }
    }

    /// When it is over.
    pub(crate) fn end(self) -> Option<Instant> {
        match self {
            Self::Now(end) | Self::Until(end) => Some(end),
            Self::Forever => None,
        }
    }

    /// How long the server is to have a call wait that is sent at this time: not at all, or so long, with zero
    /// for ever.
    pub(crate) fn block(self, sent: Instant) -> Option<Duration> {
        match self {
            Self::Now(_) => None,
            Self::Until(end) => Some(end - sent).filter(|left| !left.is_zero()),
            Self::Forever => Some(Duration::ZERO),
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

impl Change {
    pub(crate) const UNKEPT: Self = Self {
        lease: None,
        keep: Some(Duration::ZERO),
        shares: false,
    };
}
