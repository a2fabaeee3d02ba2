//! How a waiting call is answered: by a reply to its client, or by an event of its session.

use std::borrow::Cow;
use std::ffi::CString;

use redis_lock_core::sessions::{EventKind, SessionId};
use redis_lock_core::{Grant, Limit, LockId, OwnerBuf};

use crate::locks::CommandError;
use crate::server::{Blocked, Context};
use crate::sessions;

/// Marks the clients that are blocked because they wait for a lock.
pub(super) struct LockWait;

/// The answer to a waiting call.
pub(super) enum Answer {
    /// The call was granted the lock.
    Granted {
        owner: OwnerBuf,
        grant: Grant,
        /// The limit in force, and whether the call named one.
        limit: Limit,
        names_limit: bool,
    },
    /// The wait timed out.
    TimedOut,
    /// The wait was cancelled.
    Cancelled,
    /// The wait ended with an error.
    Error(CommandError),
}

impl Answer {
    pub(super) const fn error(text: CString) -> Self {
        Self::Error(CommandError::Argument(Cow::Owned(text)))
    }

    /// The event for the session of a queued call.
    fn event(&self) -> EventKind {
        match self {
            Self::Granted { grant, limit, .. } => EventKind::Granted {
                token: grant.token,
                holds: grant.holds.number(),
                lease: grant.lease,
                limit: limit.number(),
            },
            Self::TimedOut => EventKind::Ended(Cow::Borrowed("timeout")),
            Self::Cancelled => EventKind::Ended(Cow::Borrowed("cancelled")),
            Self::Error(error) => {
                let text = error.text().to_string_lossy();
                EventKind::Ended(Cow::Owned(text.into_owned()))
            }
        }
    }
}

/// The client or session that gets the answer when a call stops waiting.
#[must_use]
pub(super) enum Recipient {
    /// A blocked client.
    Client(Blocked<LockWait>),
    /// The session of a queued call.
    Session(SessionId, LockId, OwnerBuf),
}

impl Recipient {
    /// Passes the answer to the server, or to the session.
    pub(super) fn answer(self, context: Context<'_>, answer: Answer) {
        match self {
            Self::Client(blocked) => blocked.answer(answer),
            Self::Session(session, lock_id, owner) => {
                sessions::report(context, session, &lock_id.key, &owner, answer.event());
            }
        }
    }

    /// The blocked client; `None` for a session.
    pub(super) fn client(self) -> Option<Blocked<LockWait>> {
        match self {
            Self::Client(blocked) => Some(blocked),
            Self::Session(..) => None,
        }
    }
}
