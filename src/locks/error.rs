//! Every error that is replied, its code first, which programs read; and the reply of a grant.

use std::borrow::Cow;
use std::ffi::CStr;

use redis_lock_core::requests::Malformed;
use redis_lock_core::{Grant, Owner, Refusal};

use super::WrongType;
use crate::server::Context;
use crate::statistics::{self, Counter};

/// Why a call was not done.
#[derive(Debug)]
pub(crate) enum CommandError {
    /// An argument is not what it must be.
    Argument(Cow<'static, CStr>),
    /// The key holds another type.
    WrongType,
    /// This server follows a primary.
    ReadOnly,
    /// The caller's user has lost its rights while it waited.
    NoPermission,
    /// The caller may not use a command of the replication stream.
    NotPermitted,
    /// The caller is no client, and so has no user whose rights could be asked for.
    NoClient,
    /// As many calls wait for the lock as may.
    TooManyWaiters,
    /// The server does not let this client wait.
    CannotWait,
    /// As many calls wait on this server, for all locks, as may.
    TooManyWaitersInAll,
    /// The rules of a lock say no.
    Refused(Refusal),
}

impl CommandError {
    pub(crate) const fn argument(text: &'static CStr) -> Self {
        Self::Argument(Cow::Borrowed(text))
    }

    pub(crate) fn reply(&self, context: Context<'_>) {
        context.reply_error(self.text());
    }

    /// Counts it where the state of the lock was the reason.
    pub(crate) fn count_refusal(&self) {
        if let Self::Refused(refusal) = self
            && !refusal.text().to_bytes().starts_with(b"ERR ")
        {
            statistics::count(Counter::Refusals);
        }
    }

    fn text(&self) -> &CStr {
        match self {
            Self::Argument(text) => text,
            Self::WrongType => c"WRONGTYPE Operation against a key holding the wrong kind of value",
            Self::ReadOnly => c"READONLY You can't write against a read only replica.",
            Self::NoPermission => {
                c"NOPERM the right to acquire the lock was taken away while the call waited"
            }
            Self::NotPermitted => {
                c"NOPERM this command belongs to the replication stream; a user needs the \
                  permission to run RESTORE on the key as well"
            }
            Self::NoClient => {
                c"ERR LOCK.HOTKEYS tells a user of the keys that it may read, and this call has no \
                  user: send it from a client"
            }
            Self::TooManyWaiters => {
                c"MAXWAITERS as many calls wait for this lock as lock.max-waiters allows"
            }
            Self::CannotWait => {
                c"ERR this server lets no client wait that has subscribed; use another connection, or \
                  no BLOCK"
            }
            Self::TooManyWaitersInAll => {
                c"MAXWAITERS as many calls wait on this server as lock.max-waiters-total allows"
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

/// As [`answer`], for the commands that an owner sends; counts what the state of the lock refused.
pub(crate) fn answer_owner(context: Context<'_>, result: Result<(), CommandError>) {
    if let Err(error) = &result {
        error.count_refusal();
    }
    answer(context, result);
}

/// Answers the caller with the error of a call that was not done.
pub(crate) fn answer(context: Context<'_>, result: Result<(), CommandError>) {
    if let Err(error) = result {
        error.reply(context);
    }
}

/// The reply of a successful acquire or renewal.
pub(crate) fn reply_grant(context: Context<'_>, owner: Owner<'_>, grant: Grant) {
    context.reply_array(4);
    context.reply_integer(grant.token.number().cast_signed());
    context.reply_bytes(owner.bytes());
    context.reply_integer(i64::from(grant.holds.number()));
    context.reply_integer(grant.lease.millis().cast_signed());
}

/// A server that may change its locks.
#[derive(Clone, Copy)]
pub(crate) struct Primary<'call>(Context<'call>);

impl<'call> Primary<'call> {
    /// A lock is judged where it can be changed: a replica, even a writable one, answers this.
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
