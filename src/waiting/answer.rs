//! What a waiting call is told.

use std::borrow::Cow;
use std::ffi::CString;

use redis_lock_core::{Grant, OwnerBuf, WaiterId};

use crate::locks::Fault;
use crate::server::Handle;

/// Waiting for a lock.
pub(super) struct Wait;

/// What a waiting call is told.
pub(super) enum Answer {
    /// It has the lock.
    Granted {
        id: WaiterId,
        handle: Handle,
        owner: OwnerBuf,
        grant: Grant,
    },
    /// Its time is up, or it was called off.
    Nothing,
    /// It gets an error.
    Fault(Fault),
}

impl Answer {
    pub(super) const fn error(text: CString) -> Self {
        Self::Fault(Fault::Argument(Cow::Owned(text)))
    }
}
