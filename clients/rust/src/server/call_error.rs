//! Why one call to one server came to nothing.

use crate::Error;
use crate::class::Kind;
use redis::{ErrorKind, RedisError};

/// What a failed call means for the next one.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The connection failed or stayed silent. The call may have been carried out.
    Broken(RedisError),
    /// Not this server, or not now: it is a replica, loads its data, or the cluster is in a change.
    /// Nothing was done.
    Passing(RedisError),
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

    /// The connection has been given up.
    pub(crate) fn closed() -> Self {
        let error = std::io::Error::from(std::io::ErrorKind::ConnectionAborted);
        Self::Broken(RedisError::from(error))
    }

    /// The call may have been carried out, and its answer lost.
    pub(crate) fn may_have_been_done(&self) -> bool {
        matches!(self, Self::Broken(_))
    }

    /// The server says that it is not the primary any more, or was none at that moment: the address may lead
    /// to another one by now.
    pub(crate) fn is_of_replica(&self) -> bool {
        const OF_REPLICA: [&str; 3] = ["READONLY", "MASTERDOWN", "UNBLOCKED"];
        let Self::Passing(error) = self else {
            return false;
        };
        error.code().is_some_and(|code| OF_REPLICA.contains(&code))
    }

    /// What an error means to a call of this kind.
    pub(crate) fn of(error: RedisError, kind: Kind) -> Self {
        const NO_USE: [ErrorKind; 3] = [
            ErrorKind::AuthenticationFailed,
            ErrorKind::InvalidClientConfig,
            ErrorKind::RESP3NotSupported,
        ];
        let Some(code) = error.code() else {
            return if NO_USE.contains(&error.kind()) {
                Self::Refused(Error::Refused {
                    code: error.category().to_owned(),
                    message: error.detail().unwrap_or_default().to_owned(),
                })
            } else {
                Self::Broken(error)
            };
        };
        let redirect = || Some(error.redirect_node()?.0.to_owned());
        match (code, redirect()) {
            ("MOVED", Some(address)) => Self::Moved(address, error),
            ("ASK", Some(address)) => Self::Ask(address, error),
            _ => match Error::from_reply(code, error.detail().unwrap_or_default(), kind) {
                Some(refusal) => Self::Refused(refusal),
                None => Self::Passing(error),
            },
        }
    }
}

impl From<CallError> for Error {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(error) => error,
            CallError::Broken(error)
            | CallError::Passing(error)
            | CallError::Moved(_, error)
            | CallError::Ask(_, error) => Error::Unavailable(error),
        }
    }
}
