//! How a waiting call is answered.

use std::borrow::Cow;
use std::ffi::CString;

use redis_lock_core::{Grant, OwnerBuf, WaiterId};

use crate::locks::CommandError;
use crate::server::Handle;

/// Waiting for a lock.
pub(super) struct Wait;

/// The answer to a waiting call.
pub(super) enum Answer {
    /// It has the lock.
    Granted {
        id: WaiterId,
        handle: Handle,
        owner: OwnerBuf,
        grant: Grant,
    },
    /// Its time is up, or it was cancelled.
    Nothing,
    /// It gets an error.
    Error(CommandError),
}

impl Answer {
    pub(super) const fn error(text: CString) -> Self {
        Self::Error(CommandError::Argument(Cow::Owned(text)))
    }
}
