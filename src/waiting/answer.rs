//! The answers to a waiting call.

use std::borrow::Cow;
use std::ffi::CString;

use redis_lock_core::{Grant, Limit, OwnerBuf};

use crate::locks::CommandError;

/// Marks the clients that are blocked because they wait for a lock.
pub(super) struct Wait;

/// The answer to a waiting call.
pub(super) enum Answer {
    /// It was granted the lock.
    Granted {
        owner: OwnerBuf,
        grant: Grant,
        /// The limit in force, where the call named one.
        limit: Option<Limit>,
    },
    /// Its time is up, or it was cancelled.
    Nothing,
    /// An error.
    Error(CommandError),
}

impl Answer {
    pub(super) const fn error(text: CString) -> Self {
        Self::Error(CommandError::Argument(Cow::Owned(text)))
    }
}
