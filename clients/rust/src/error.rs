//! What can go wrong.

use thiserror::Error;

/// Why a call did not do what it was to do.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The lock was not free in the time that the caller wanted to wait. It neither holds nor waits
    /// any more.
    #[error("the lock was not free in time")]
    TimedOut,
    /// The lock is not, or no longer, the caller's.
    #[error("the lock is lost: {0}")]
    Lost(#[from] Loss),
    /// The server's answer is no, and would be again: `WRONGTYPE`, `MAXWAITERS`, `NOPERM`, `ERR`, …
    #[error("the server refused: {code} {message}")]
    Refused {
        /// The first word of the server's error.
        code: String,
        /// The rest of it.
        message: String,
    },
    /// No server answered in the time there was, or none that takes writes. The call may have been
    /// carried out all the same; every call of this crate can be repeated.
    #[error("no answer from the server: {0}")]
    Unreachable(#[source] redis::RedisError),
    /// The client has been shut down.
    #[error("the client has been shut down")]
    ShutDown,
    /// An argument that the server would not take either, or no tokio runtime.
    #[error("{0}")]
    Invalid(&'static str),
    /// The server answered something that this version does not understand.
    #[error("unexpected answer: {0}")]
    Unexpected(String),
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
    /// The lease has passed without an answer to a renewal: the server may have granted the lock to
    /// somebody else.
    #[error("the lease has passed without a renewal")]
    Expired,
    /// [`Client::shutdown`](crate::Client::shutdown) has released it.
    #[error("the client has been shut down")]
    ShutDown,
}

impl Error {
    /// What an error that the server replied means: its first word, and the rest.
    pub(crate) fn from_reply(code: &str, message: &str) -> Self {
        match code {
            "NOTHELD" => Self::Lost(Loss::NotHeld),
            "NOTOWNER" => Self::Lost(Loss::NotOwner),
            "FENCED" => Self::Lost(Loss::Fenced),
            _ => Self::Refused {
                code: code.to_owned(),
                message: message.to_owned(),
            },
        }
    }
}
