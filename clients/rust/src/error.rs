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
    kind: ErrorKind,
    cause: Cow<'static, str>,
    /// The first word of an error reply; empty without a reply.
    pub(crate) word: String,
    /// No reply came, but the server may have got the call, or may get it yet.
    pub(crate) is_open: bool,
}

/// The kinds of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Other owners hold the lock or wait for it, and the time to wait is over.
    Busy,
    /// The grant ended before its holder released it. Stop the work under the lock.
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
    /// The name of the kind in metrics, such as `not-alone`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.texts().0
    }

    /// What the kind means, in a few words.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.texts().1
    }

    #[rustfmt::skip]
    fn texts(self) -> (&'static str, &'static str) {
        match self {
            Self::Busy => ("busy", "other owners hold the lock or wait for it"),
            Self::Lost => ("lost", "the lock was lost"),
            Self::Deadlock => ("deadlock", "waiting would create a deadlock cycle: release another lock first"),
            Self::NotAlone => ("not-alone", "the lock has more holders than this call allows: release it first"),
            Self::Refused => ("refused", "the server refuses"),
            Self::Unavailable => ("unavailable", "the server did not answer in time"),
            Self::Misuse => ("misuse", "misuse"),
        }
    }

    /// The same call may succeed later.
    pub(crate) fn may_pass(self) -> bool {
        matches!(self, Self::Unavailable | Self::Lost | Self::Busy)
    }
}

/// How error replies begin, and what they are. Others are misuse.
#[rustfmt::skip]
const KINDS: [(ErrorKind, &str); 5] = [
    (ErrorKind::Unavailable, "NOSESSION|LOADING|BUSY|READONLY|MASTERDOWN|NOREPLICAS|MISCONF|UNBLOCKED|CLUSTERDOWN|\
        TRYAGAIN|MOVED|ASK|ERR max number of clients"),
    (ErrorKind::Lost, "NOTHELD|NOTOWNER|FENCED"),
    (ErrorKind::Refused, "NOPERM|NOAUTH|WRONGPASS|OOM|MAXWAITERS|MAXSESSIONS|DENIED|NOPROTO|ERR unknown|ERR AUTH|\
        ERR invalid password|ERR Protocol error: unauthenticated|ERR no fencing token is left|\
        ERR a fault inside the module"),
    (ErrorKind::Deadlock, "DEADLOCK"),
    (ErrorKind::NotAlone, "NOTALONE"),
];

/// The likely causes of those that say too little.
#[rustfmt::skip]
const HINTS: [(&str, &str); 3] = [
    ("WRONGTYPE", "this key is not a lock of the module: an old SET NX lock of this name?"),
    ("ERR unknown", "is the module lock, 0.3 or later, loaded there?"),
    ("NOPERM", "the user needs permission for this command, LOCK.SESSION and the key"),
];

/// Before it is known which call an error ends, it names neither the call nor the lock.
impl Error {
    pub(crate) fn new(kind: ErrorKind, cause: impl Into<Cow<'static, str>>) -> Self {
        Self {
            operation: "",
            key: String::new(),
            kind,
            cause: cause.into(),
            word: String::new(),
            is_open: false,
        }
    }

    pub(crate) fn misuse(cause: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorKind::Misuse, cause)
    }

    pub(crate) fn closed() -> Self {
        Self::misuse("the client is closed")
    }

    pub(crate) fn released() -> Self {
        Self::misuse("it was released already")
    }

    /// An error reply of a server.
    pub(crate) fn reply(server: &str, text: &str) -> Self {
        let is_of = |begins: &str| begins.split('|').any(|begin| text.starts_with(begin));
        let kind = KINDS.iter().find(|(_, begins)| is_of(begins));
        let hint = HINTS.iter().find(|(begin, _)| text.starts_with(begin));
        let hint = hint.map_or_else(String::new, |(_, hint)| format!(": {hint}"));
        let kind = kind.map_or(ErrorKind::Misuse, |(kind, _)| *kind);
        let mut error = Self::new(kind, format!("{server}: {text}{hint}"));
        let word = text.split(' ').next().unwrap_or_default();
        word.clone_into(&mut error.word);
        error
    }

    /// A call that the server did not get.
    pub(crate) fn unsent(server: &str, cause: impl std::fmt::Display) -> Self {
        Self::new(ErrorKind::Unavailable, format!("{server}: {cause}"))
    }

    /// A reply that did not come: the server may have got the call, or may get it yet.
    pub(crate) fn unanswered(server: &str, cause: impl std::fmt::Display) -> Self {
        let mut error = Self::unsent(server, cause);
        error.is_open = true;
        error
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.word == word
    }

    /// The connection brought no reply.
    pub(crate) fn is_broken(&self) -> bool {
        self.word.is_empty()
    }

    /// The same call may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }

    /// The grant that the call was about is over.
    pub(crate) fn is_gone(&self) -> bool {
        self.kind == ErrorKind::Lost || self.is("WRONGTYPE")
    }

    /// The key is at another node of the cluster.
    pub(crate) fn redirects(&self) -> bool {
        self.is("MOVED") || self.is("ASK")
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
