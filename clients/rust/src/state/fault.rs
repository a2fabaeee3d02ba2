//! Error replies of the server, and replies that did not come.

use crate::error::{Error, ErrorKind};

/// An error reply of the server, or a reply that did not come.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The first word of an error reply; empty without a reply.
    word: String,
    text: String,
    kind: ErrorKind,
    may_arrive: bool,
}

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
        "the user needs this command, LOCK.SESSION, and the key",
    ),
];

impl Fault {
    /// An error reply.
    pub(crate) fn reply(text: &str) -> Self {
        let is_of = |begins: &str| begins.split('|').any(|begin| text.starts_with(begin));
        let kind = KINDS.iter().find(|(_, begins)| is_of(begins));
        let hint = HINTS.iter().find(|(begin, _)| text.starts_with(begin));
        Self {
            word: text.split(' ').next().unwrap_or_default().to_owned(),
            text: hint.map_or_else(|| text.to_owned(), |(_, hint)| format!("{text}: {hint}")),
            kind: kind.map_or(ErrorKind::Misuse, |(kind, _)| *kind),
            may_arrive: false,
        }
    }

    /// A reply that did not come. `may_arrive`: the server may have got the call, or may get it yet.
    pub(crate) fn no_reply(cause: impl std::fmt::Display, may_arrive: bool) -> Self {
        Self {
            word: String::new(),
            text: cause.to_string(),
            kind: ErrorKind::Unavailable,
            may_arrive,
        }
    }

    /// A login or a handshake that failed.
    pub(crate) fn refused(cause: impl std::fmt::Display) -> Self {
        Self {
            kind: ErrorKind::Refused,
            ..Self::no_reply(cause, false)
        }
    }

    pub(crate) fn is(&self, word: &str) -> bool {
        self.word == word
    }

    /// The connection brought no reply.
    pub(crate) fn is_broken(&self) -> bool {
        self.word.is_empty()
    }

    /// The server may still carry out the call.
    pub(crate) fn may_arrive(&self) -> bool {
        self.may_arrive
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
        is_one.then(|| self.text.split(' ').nth(2)).flatten()
    }

    /// The word of a grant that is gone.
    pub(crate) fn word(&self) -> &str {
        &self.word
    }

    /// What it means to the user. It names the server.
    pub(crate) fn failure(&self, server: &str) -> Error {
        Error::new(self.kind, format!("{server}: {}", self.text))
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
