//! What can go wrong.

use crate::class::{Class, Kind};
use std::borrow::Cow;
use thiserror::Error;

/// Why a call did not do what it was to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// Others hold the lock, or are in line, and the time to wait is over. The caller neither holds nor
    /// waits any more.
    #[error("the lock was not free in time")]
    Busy,
    /// The grant has ended otherwise than by its release.
    #[error("the lock is lost: {0}")]
    Lost(#[from] Loss),
    /// Waiting would create a deadlock cycle. Release something first: the same call gets the same
    /// answer.
    #[error("{0}")]
    Deadlock(String),
    /// The lock has more holders than the call bears. Release it first, then acquire.
    #[error("{0}")]
    NotAlone(String),
    /// The server's answer is no, and would be again: no right, a wrong password, no memory, no module.
    #[error("the server refused: {code} {message}")]
    Refused {
        /// The first word of the server's error.
        code: String,
        /// The rest of it.
        message: String,
    },
    /// No server answered in the time there was, or none that takes writes. The call may have been
    /// carried out all the same; what an acquire may have got is given back in the background.
    #[error("no answer from the server: {0}")]
    Unavailable(#[source] redis::RedisError),
    /// Wrong arguments, another type of key, a client that has been closed.
    #[error("{0}")]
    Misuse(Cow<'static, str>),
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The server says that the lock is free: its lease has ended, or it was deleted.
    #[error("it is free")]
    NotHeld,
    /// The server says that another owner holds it.
    #[error("another owner holds it")]
    NotOwner,
    /// The server says that the token is not that of the current grant.
    #[error("another grant has taken its place")]
    Fenced,
    /// The key holds something else than a lock.
    #[error("its key holds another type")]
    WrongType,
    /// A lease has passed without a sign that it stands: the server may have granted the lock to
    /// somebody else. Also the end of a fixed lease, and of one that was kept for so long at most.
    #[error("its time has passed")]
    Expired,
    /// Another connection keeps it now, in the name of the same owner: the last to ask has it.
    #[error("another connection keeps it now")]
    KeptElsewhere,
    /// [`Locks::close`](crate::Locks::close) has released it; or the runtime has ended on which the client was made,
    /// and its lease ends it.
    #[error("the client has been closed")]
    Closed,
}

impl Error {
    pub(crate) fn misuse(text: &'static str) -> Self {
        Self::Misuse(Cow::Borrowed(text))
    }

    pub(crate) fn closed() -> Self {
        Self::misuse("the client has been closed")
    }

    pub(crate) fn unexpected(answer: &redis::Value) -> Self {
        Self::Misuse(format!("an answer that this client does not understand: {answer:?}").into())
    }

    /// What an error that the server replied means, none if it may pass: its first word, and the rest.
    pub(crate) fn from_reply(code: &str, message: &str, kind: Kind) -> Option<Self> {
        let text = format!("{code} {message}");
        Some(match Class::of(&text, kind) {
            Class::Passing => return None,
            Class::Lost => Self::Lost(match code {
                "NOTHELD" => Loss::NotHeld,
                "NOTOWNER" => Loss::NotOwner,
                "FENCED" => Loss::Fenced,
                _ => Loss::WrongType,
            }),
            Class::Deadlock => Self::Deadlock(text),
            Class::NotAlone => Self::NotAlone(text),
            Class::Misuse => Self::Misuse(text.into()),
            Class::Refused => {
                let hint = if message.starts_with("unknown command") {
                    " (is the module lock loaded?)"
                } else {
                    ""
                };
                Self::Refused {
                    code: code.to_owned(),
                    message: format!("{message}{hint}"),
                }
            }
        })
    }
}
