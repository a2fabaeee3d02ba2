//! The replies for errors and grants. An error starts with a code for programs.

use std::borrow::Cow;
use std::ffi::{CStr, CString};

use redis_lock_core::parse::Malformed;
use redis_lock_core::{Grant, Limit, Owner, Refusal};

use super::WrongType;
use crate::server::Context;
use crate::statistics::{self, Counter};

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// An argument is wrong.
    Argument(Cow<'static, CStr>),
    /// The key holds another type.
    WrongType,
    /// This server is a replica.
    ReadOnly,
    /// The user lost the right to acquire the lock while the call waited.
    NoPermission,
    /// The user may not run a command of the replication stream.
    NotPermitted,
    /// The caller is not a client, so it has no user whose rights could be checked.
    NoClient,
    /// The waiter limit of the lock is reached.
    TooManyWaiters,
    /// The server cannot block this client.
    CannotWait,
    /// The limit of blocked calls on this server is reached.
    TooManyWaitersInAll,
    /// The limit of queued calls on this server is reached.
    TooManyQueued,
    /// Waiting would create a deadlock cycle.
    Deadlock(CString),
    /// The rules of the lock refuse the call.
    Refused(Refusal),
}

impl CommandError {
    pub(crate) const fn argument(text: &'static CStr) -> Self {
        Self::Argument(Cow::Borrowed(text))
    }

    #[cold]
    pub(crate) fn reply(&self, context: Context<'_>) {
        context.reply_error(self.text());
    }

    /// Counts the error if the state of the lock caused it.
    #[cold]
    pub(crate) fn count_refusal(&self) {
        if let Self::Refused(refusal) = self
            && *refusal != Refusal::SessionFull
            && !refusal.is_last()
        {
            statistics::count(Counter::Refusals);
        }
    }

    pub(crate) fn text(&self) -> &CStr {
        match self {
            Self::Argument(text) => text,
            Self::Deadlock(text) => text,
            Self::WrongType => c"WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::ReadOnly => c"READONLY You can't write against a read only replica.",
            Self::NoPermission => {
                c"NOPERM the permission to acquire the lock was revoked during the wait"
            }
            Self::NotPermitted => {
                c"NOPERM this command belongs to the replication stream; a user needs the \
                  permission to run RESTORE on the key as well"
            }
            Self::NoClient => {
                c"ERR LOCK.HOTKEYS lists the keys that the calling user may use with it, and this call \
                  has no user: send it from a client"
            }
            Self::TooManyWaiters => {
                c"MAXWAITERS the limit of calls that wait for this lock is reached: lock.max-waiters"
            }
            Self::CannotWait => {
                c"ERR on this server a subscribed client cannot wait: use another connection, or \
                  no BLOCK"
            }
            Self::TooManyWaitersInAll => {
                c"MAXWAITERS the limit of blocked calls on this server is reached: lock.max-waiters-total, or \
                  three quarters of maxclients"
            }
            Self::TooManyQueued => {
                c"MAXWAITERS the limit of queued calls on this server is reached: lock.max-queued"
            }
            Self::Refused(refusal) => refusal.text(),
        }
    }
}

impl From<WrongType> for CommandError {
    fn from(_: WrongType) -> Self {
        Self::WrongType
    }
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Malformed> for CommandError {
    fn from(Malformed(text): Malformed) -> Self {
        Self::Argument(text)
    }
}

/// Like [`answer`], but for the commands of an owner, whose refusals are counted.
pub(crate) fn answer_owner(context: Context<'_>, result: Result<(), CommandError>) {
    if let Err(error) = result {
        error.count_refusal();
        error.reply(context);
    }
}

/// Replies with the error of a failed call.
pub(crate) fn answer(context: Context<'_>, result: Result<(), CommandError>) {
    if let Err(error) = result {
        error.reply(context);
    }
}

/// Replies with a grant, and with the limit in force if the call named a limit.
pub(crate) fn reply_grant(
    context: Context<'_>,
    owner: Owner<'_>,
    grant: Grant,
    limit: Option<Limit>,
) {
    context.reply_array(4 + usize::from(limit.is_some()));
    context.reply_integer(grant.token.number().cast_signed());
    context.reply_bytes(owner.bytes());
    context.reply_integer(i64::from(grant.holds.number()));
    context.reply_integer(grant.lease.millis().cast_signed());
    if let Some(limit) = limit {
        context.reply_integer(i64::from(limit.number()));
    }
}

/// Proof that this server is a primary, so that a command may change its locks.
#[derive(Clone, Copy)]
pub(crate) struct Primary<'call>(Context<'call>);

impl<'call> Primary<'call> {
    /// Returns an error on a replica, even if the replica is writable.
    pub(crate) fn check(context: Context<'call>) -> Result<Self, CommandError> {
        if context.flags().replica() {
            Err(CommandError::ReadOnly)
        } else {
            Ok(Self(context))
        }
    }

    pub(crate) const fn context(self) -> Context<'call> {
        self.0
    }
}
