//! Why one call to one server came to nothing.

use crate::Error;
use redis::{ErrorKind, RedisError};

/// What a failed call means for the next one.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The connection failed or stayed silent. The call may have been carried out.
    Broken(RedisError),
    /// Not this server, or not now: it is a replica, loads its data, or the cluster is in a change.
    /// Nothing was done.
    NotHere(RedisError),
    /// The cluster has the key at this address, from now on.
    Moved(String, RedisError),
    /// The cluster may have the key at this address, for this call.
    Ask(String, RedisError),
    /// The answer is no.
    Refused(Error),
}

impl CallError {
    /// A call that was not answered in time.
    pub(crate) fn silence() -> Self {
        let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
        Self::Broken(RedisError::from(error))
    }

    /// The call may have been carried out, and its answer lost.
    pub(crate) fn may_have_been_done(&self) -> bool {
        matches!(self, Self::Broken(_))
    }
}

impl From<RedisError> for CallError {
    fn from(error: RedisError) -> Self {
        const NO_USE: [ErrorKind; 3] = [
            ErrorKind::AuthenticationFailed,
            ErrorKind::InvalidClientConfig,
            ErrorKind::RESP3NotSupported,
        ];
        let Some(code) = error.code() else {
            return if NO_USE.contains(&error.kind()) {
                Self::Refused(Error::Unreachable(error))
            } else {
                Self::Broken(error)
            };
        };
        let redirect = || Some(error.redirect_node()?.0.to_owned());
        match code {
            "MOVED" => match redirect() {
                Some(address) => Self::Moved(address, error),
                None => Self::NotHere(error),
            },
            "ASK" => match redirect() {
                Some(address) => Self::Ask(address, error),
                None => Self::NotHere(error),
            },
            "READONLY" | "UNBLOCKED" | "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => {
                Self::NotHere(error)
            }
            code => Self::Refused(Error::from_reply(code, error.detail().unwrap_or_default())),
        }
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(error) => error,
            CallError::Broken(error)
            | CallError::NotHere(error)
            | CallError::Moved(_, error)
            | CallError::Ask(_, error) => Error::Unreachable(error),
        }
    }
}
