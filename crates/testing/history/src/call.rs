//! One call of one client, and what came of it.

use crate::{Limit, Moment};
use serde::{Deserialize, Serialize};

/// A call on one key. A client has at most one call under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The caller.
    pub client: u32,
    /// The lock.
    pub key: String,
    /// The owner named in the call; of [`Action::Remove`] and [`Action::Look`], nobody.
    pub owner: String,
    /// The request.
    pub action: Action,
    /// Just before the request was written.
    pub sent: Moment,
    /// Just after the reply was read. Of a call without one: a moment after which it can no longer
    /// have any effect, because the server has been seen to know of the connection's end.
    pub ended: Moment,
    /// The result.
    pub outcome: Outcome,
    /// The session that it names.
    #[serde(default)]
    pub session: Option<InSession>,
}

/// How a call belongs to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InSession {
    /// The session; 0 for none, in RENEW.
    pub id: u64,
    /// `QUEUE`, and it was not answered at once: its outcome is that of an event, and it ended when the reply to
    /// the POLL was read that told of it.
    pub queued: bool,
}

impl Call {
    /// A call that has been sent and has no answer yet; it names no session.
    #[must_use]
    pub fn sent(client: u32, key: &str, owner: &str, action: Action, sent: Moment) -> Self {
        Self {
            client,
            key: key.to_owned(),
            owner: owner.to_owned(),
            action,
            sent,
            ended: Moment::MAX,
            outcome: Outcome::Lost,
            session: None,
        }
    }

    /// The same with its answer.
    #[must_use]
    pub fn ended(mut self, ended: Moment, outcome: Outcome) -> Self {
        (self.ended, self.outcome) = (ended, outcome);
        self
    }

    /// The grant that this call returned, if any.
    #[must_use]
    pub fn granted(&self) -> Option<&Granted> {
        match &self.outcome {
            Outcome::Grant(granted) => Some(granted),
            _ => None,
        }
    }

    /// Whether nobody knows what came of it.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(self.outcome, Outcome::Lost | Outcome::GivenBack)
    }

    /// Whether its client waited on a connection of its own, and may have been gone before it was answered.
    pub(crate) fn is_blocked(&self) -> bool {
        let queued = self.session.is_some_and(|session| session.queued);
        matches!(self.action, Action::Acquire(Acquire { block: true, .. })) && !queued
    }

    /// Whether it was an acquire that was not granted, and does not wait any more.
    pub(crate) fn was_denied(&self) -> bool {
        matches!(self.action, Action::Acquire(_))
            && matches!(
                self.outcome,
                Outcome::Nil | Outcome::Refused(Refusal::Deadlock)
            )
    }
}

/// The request of a call. Leases are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// `LOCK.ACQUIRE`
    Acquire(Acquire),
    /// `LOCK.RELEASE`
    Release {
        /// How far down.
        down: Down,
        /// `TOKEN`
        token: Option<u64>,
    },
    /// `LOCK.RENEW`
    Renew(Renew),
    /// `LOCK.FENCE key token`, alone or in a script.
    Fence(u64),
    /// `LOCK.HOLDERS`
    Look,
    /// `DEL`, `FLUSHALL` and whatever else takes a lock away from its owner.
    Remove,
}

impl Action {
    /// A release of all holds.
    pub const RELEASE: Self = Self::Release {
        down: Down::All,
        token: None,
    };
}

/// The options of an acquire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acquire {
    /// `SHARED` or `LIMIT`; none where the call named neither, and allows nobody else.
    pub limit: Option<Limit>,
    /// `PX`; none where the call named no lease.
    pub lease: Option<u64>,
    /// `BLOCK` or `QUEUE` was given.
    pub block: bool,
    /// `HOLDS`
    pub holds: Option<u32>,
    /// `TOKEN`
    pub token: Option<u64>,
}

/// The options of a renewal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renew {
    /// `SHARED` or `LIMIT`: the limit to set.
    pub limit: Option<Limit>,
    /// `PX`
    pub lease: Option<u64>,
    /// `TOKEN`
    pub token: Option<u64>,
    /// `RAISE`
    pub raise: Option<u64>,
}

/// How much a release gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Down {
    /// One hold.
    One,
    /// `ALL`
    All,
    /// `HOLDS n`
    To(u32),
}

/// The result of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A grant, of ACQUIRE or RENEW.
    Grant(Granted),
    /// The holders of the lock, lowest token first, as HOLDERS returned them.
    Holders(Vec<Holder>),
    /// nil; that nobody holds the lock, as HOLDERS told.
    Nil,
    /// The holds left, of RELEASE.
    Left(u32),
    /// `OK` of FENCE; the reply of a removal.
    Done,
    /// One of the module's errors: nothing was changed.
    Refused(Refusal),
    /// Another error of which it is certain that nothing was changed (`OOM`, `READONLY`, `MOVED`,
    /// `LOADING`, a connection that was never made, …): tells nothing of the lock.
    Untouched,
    /// No reply: it may have happened at any moment between [`Call::sent`] and [`Call::ended`], or
    /// not at all.
    Lost,
    /// No reply, because the server itself closed the connection of a waiting call (`CLIENT KILL`):
    /// it may have been granted, but whatever it took was given back by [`Call::ended`].
    GivenBack,
}

/// A grant, as a reply told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The fencing token.
    pub token: u64,
    /// Whose.
    pub owner: String,
    /// The hold count.
    pub holds: u32,
    /// The remembered lease.
    pub lease: u64,
    /// The limit in force, where the call named one.
    pub limit: Option<Limit>,
}

/// One holder, as HOLDERS told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// Who.
    pub owner: String,
    /// The fencing token.
    pub token: u64,
    /// The hold count.
    pub holds: u32,
    /// The remembered lease.
    pub lease: u64,
    /// How many holders it allows.
    pub limit: Limit,
}

/// The module's errors that tell something of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Refusal {
    /// `NOTHELD`
    NotHeld,
    /// `NOTOWNER`
    NotOwner,
    /// `FENCED`
    Fenced,
    /// `AHEAD`
    Ahead,
    /// `NOTALONE`
    NotAlone,
    /// `DEADLOCK`: the call does not wait, as one without `BLOCK`.
    Deadlock,
}
