//! Why a call of the user failed.

use std::borrow::Cow;
use std::fmt;

/// Why a call failed: what was attempted, the lock, the [kind](ErrorKind), and what the server or the network said.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let locks = redis_lock_client::testing::StandIn::new().locks();
/// use redis_lock_client::ErrorKind;
///
/// let held = locks.lock("lock:orders:42").acquire().await?;
/// match locks.lock("lock:orders:42").try_acquire().await {
///     Ok(guard) => guard.release().await?,
///     Err(error) if error.kind() == ErrorKind::Busy => println!("{} is busy", error.key()),
///     Err(error) => return Err(error),
/// }
/// held.release().await?;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    operation: &'static str,
    key: String,
    pub(crate) kind: ErrorKind,
    pub(crate) cause: Cow<'static, str>,
    pub(crate) origin: Origin,
}

/// Where an error comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Its cause is the server's error reply.
    Reply,
    /// No reply came, but the server may have got the call, or may get it yet.
    Unanswered,
    /// The server did not get a call.
    Client,
}

/// The kinds of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Other owners hold the lock or wait for it, and the time to wait is over.
    Busy,
    /// The grant ended otherwise than by its release. Stop the work under the lock.
    Lost,
    /// Waiting would create a deadlock cycle. Release another lock of the task first.
    Deadlock,
    /// The lock has more holders than the call allows. Release it first, then acquire it.
    NotAlone,
    /// The server refuses: no right, memory is full, a limit is reached, the module is not loaded.
    Refused,
    /// No answer, or only passing errors, until the time was over.
    Unavailable,
    /// Wrong arguments, a key of another type, a closed client.
    Misuse,
}

impl ErrorKind {
    /// What the kind means, in a few words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Busy => "other owners hold the lock or wait for it",
            Self::Lost => "the lock was lost",
            Self::Deadlock => "waiting would create a deadlock cycle: release another lock first",
            Self::NotAlone => "the lock has more holders than this call allows: release it first",
            Self::Refused => "the server refuses",
            Self::Unavailable => "the server did not answer in time",
            Self::Misuse => "misuse",
        }
    }

    /// The same call may succeed later.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::Unavailable | Self::Lost | Self::Busy)
    }

    /// The name of the kind in metrics, such as `not-alone`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Busy => "busy",
            Self::Lost => "lost",
            Self::Deadlock => "deadlock",
            Self::NotAlone => "not-alone",
            Self::Refused => "refused",
            Self::Unavailable => "unavailable",
            Self::Misuse => "misuse",
        }
    }
}

/// Before it is known which call an error ends, it names neither the call nor the lock.
impl Error {
    pub(crate) fn new(kind: ErrorKind, cause: impl Into<Cow<'static, str>>) -> Self {
        Self {
            operation: "",
            key: String::new(),
            kind,
            cause: cause.into(),
            origin: Origin::Client,
        }
    }

    pub(crate) fn misuse(cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Misuse, cause)
    }

    pub(crate) fn closed() -> Self {
        Self::misuse("the client is closed")
    }

    /// The same from this server.
    pub(crate) fn at(self, server: &str) -> Self {
        let cause = format!("{server}: {}", self.cause).into();
        Self { cause, ..self }
    }

    /// The same of a call about this key.
    pub(crate) fn of(mut self, operation: &'static str, key: &[u8]) -> Self {
        self.operation = operation;
        self.key = String::from_utf8_lossy(key).into_owned();
        self
    }
}

impl Error {
    /// What kind it is.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The key of the lock, with the client's prefix.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// What the server or the network said; of a loss, its reason.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.cause
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, cause) = (self.kind.meaning(), &self.cause);
        write!(f, "{} {}: {kind}: {cause}", self.operation, self.key)
    }
}

impl std::error::Error for Error {}
