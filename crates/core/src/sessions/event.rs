//! The events that a session reports to its program until the program acknowledges them.

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
    /// 1, 2, 3 … in each session.
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
        /// The grant's limit; 0: none.
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
        /// The session it went to; `None` after `SESSION 0`.
        session: Option<SessionId>,
    },
}

/// Why a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossReason {
    /// Its lease ended.
    Expired,
    /// The server evicted the key.
    Evicted,
    /// FLUSHALL, FLUSHDB.
    Flushed,
    /// A RELEASE that does not name the session.
    Released,
    /// The key was deleted, overwritten, renamed or moved.
    Deleted,
}

impl LossReason {
    /// The word of the reply.
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
    /// By number. There may be a million, and a list would move them all when it grows.
    list: BTreeMap<u64, Event>,
    last_number: u64,
    /// How many events, from the oldest on, were sent on the connection that polls.
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

    /// Drops the events that were sent on the polling connection, because it polls again.
    pub(super) fn acknowledge(&mut self) {
        for _ in 0..std::mem::take(&mut self.answered) {
            self.list.pop_first();
        }
    }

    /// Another connection polls from now on, or the last reply was dropped. All events are sent again.
    pub(super) fn answer_again(&mut self) {
        self.answered = 0;
    }

    /// Up to `max` events for a reply, oldest first.
    pub(super) fn answer(&mut self, max: usize) -> Vec<Event> {
        self.answered = max.min(self.list.len());
        self.list.values().take(max).cloned().collect()
    }
}
