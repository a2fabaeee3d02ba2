//! What the errors of one try mean: error replies of the server, and replies that did not come.

use crate::error::{Error, ErrorKind, Origin};

/// How error replies begin, and what they are. Others are misuse.
const KINDS: [(ErrorKind, &str); 5] = [
    (
        ErrorKind::Unavailable,
        "NOSESSION|LOADING|BUSY|READONLY|MASTERDOWN|NOREPLICAS|MISCONF|UNBLOCKED|CLUSTERDOWN|TRYAGAIN|\
         MOVED|ASK|ERR max number of clients",
    ),
    (ErrorKind::Lost, "NOTHELD|NOTOWNER|FENCED"),
    (
        ErrorKind::Refused,
        "NOPERM|NOAUTH|WRONGPASS|OOM|MAXWAITERS|MAXSESSIONS|DENIED|NOPROTO|ERR unknown|ERR AUTH|\
         ERR invalid password|ERR Protocol error: unauthenticated|ERR no fencing token is left|\
         ERR a fault inside the module",
    ),
    (ErrorKind::Deadlock, "DEADLOCK"),
    (ErrorKind::NotAlone, "NOTALONE"),
];

/// The likely causes of those that say too little.
const HINTS: [(&str, &str); 3] = [
    (
        "WRONGTYPE",
        "this key is not a lock of the module: an old SET NX lock of this name?",
    ),
    (
        "ERR unknown",
        "is the module lock, 0.3 or later, loaded there?",
    ),
    (
        "NOPERM",
        "the user needs permission for this command, LOCK.SESSION and the key",
    ),
];

impl Error {
    /// An error reply.
    pub(crate) fn reply(text: &str) -> Self {
        let is_of = |begins: &str| begins.split('|').any(|begin| text.starts_with(begin));
        let kind = KINDS.iter().find(|(_, begins)| is_of(begins));
        let hint = HINTS.iter().find(|(begin, _)| text.starts_with(begin));
        let cause = hint.map_or_else(|| text.to_owned(), |(_, hint)| format!("{text}: {hint}"));
        let mut error = Self::new(kind.map_or(ErrorKind::Misuse, |(kind, _)| *kind), cause);
        error.origin = Origin::Reply;
        error
    }

    /// A call that the server did not get.
    pub(crate) fn unsent(cause: impl std::fmt::Display) -> Self {
        Self::new(ErrorKind::Unavailable, cause.to_string())
    }

    /// A reply that did not come: the server may have got the call, or may get it yet.
    pub(crate) fn unanswered(cause: impl std::fmt::Display) -> Self {
        let mut error = Self::unsent(cause);
        error.origin = Origin::Unanswered;
        error
    }

    /// The first word of an error reply; empty without a reply.
    pub(crate) fn word(&self) -> &str {
        let word = self.cause.split(' ').next().unwrap_or_default();
        if self.is_broken() { "" } else { word }
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.word() == word
    }

    /// The connection brought no reply.
    pub(crate) fn is_broken(&self) -> bool {
        self.origin != Origin::Reply
    }

    /// The server may still carry out the call.
    pub(crate) fn may_arrive(&self) -> bool {
        self.origin == Origin::Unanswered
    }

    /// The same call may succeed later.
    pub(crate) fn is_passing(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }

    /// The grant that the call was about is over.
    pub(crate) fn is_gone(&self) -> bool {
        self.kind == ErrorKind::Lost || self.is("WRONGTYPE")
    }

    /// The key is at another node of the cluster: `MOVED` or `ASK`, and the address.
    pub(crate) fn redirection(&self) -> Option<&str> {
        let is_one = self.is("MOVED") || self.is("ASK");
        is_one.then(|| self.cause.split(' ').nth(2)).flatten()
    }
}
