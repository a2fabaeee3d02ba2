//! The events of a session, which are kept until the program acknowledges them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::session::SessionId;
use crate::{Lease, OwnerBuf, Token};

/// A session with this many unacknowledged events accepts no new grant and no new wait.
pub(super) const FULL: usize = 10_000;

/// An event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number: 1, 2, 3 … in each session.
    pub number: u64,
    /// The lock's key.
    pub key: Arc<[u8]>,
    /// The owner of the grant or call.
    pub owner: OwnerBuf,
    /// The kind of event.
    pub kind: EventKind,
}

/// The kinds of events of a grant or a call of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A queued call was granted the lock.
    Granted {
        /// The grant's token.
        token: Token,
        /// The hold count.
        holds: u32,
        /// The remembered lease.
        lease: Lease,
        /// The grant's limit; 0 for none.
        limit: u32,
    },
    /// A queued call left the line without a grant: `timeout`, `cancelled`, or an error's text.
    Ended(Cow<'static, str>),
    /// A grant ended before its program released it.
    Lost {
        /// The grant's token.
        token: Token,
        /// Why it ended.
        reason: LossReason,
    },
    /// A grant left the session.
    Taken {
        /// The grant's token.
        token: Token,
        /// The session that has the grant now; `None` after `SESSION 0`.
        session: Option<SessionId>,
    },
}

/// Why a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// The lease ended.
    Expired,
    /// The server evicted the key.
    Evicted,
    /// FLUSHALL or FLUSHDB deleted the key.
    Flushed,
    /// A RELEASE that does not name the session released the grant.
    Released,
    /// The key was deleted, overwritten, renamed or moved.
    Deleted,
}

impl LossReason {
    /// The word in the reply.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::Evicted => "evicted",
            Self::Flushed => "flushed",
            Self::Released => "released",
            Self::Deleted => "deleted",
        }
    }
}

/// The events of a session that are not acknowledged, oldest first.
#[derive(Debug, Default)]
pub(super) struct Events {
    /// The events by number. Not a list, because there may be a million events, which a list would move when it grows.
    list: BTreeMap<u64, Event>,
    last_number: u64,
    /// How many of the oldest events were sent on the polling connection.
    answered: usize,
}

impl Events {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    pub(super) fn push(&mut self, key: Arc<[u8]>, owner: OwnerBuf, kind: EventKind) {
        self.last_number += 1;
        let event = Event {
            number: self.last_number,
            key,
            owner,
            kind,
        };
        self.list.insert(event.number, event);
    }

    /// Drops the events that were sent on the polling connection. Call this when that connection polls again.
    pub(super) fn acknowledge(&mut self) {
        for _ in 0..std::mem::take(&mut self.answered) {
            self.list.pop_first();
        }
    }

    /// Lets all events be sent again. Call this when another connection takes over, or when the last reply was dropped.
    pub(super) fn answer_again(&mut self) {
        self.answered = 0;
    }

    /// Up to `max` events for a reply, oldest first.
    pub(super) fn answer(&mut self, max: usize) -> Vec<Event> {
        self.answered = max.min(self.list.len());
        self.list.values().take(max).cloned().collect()
    }
}
