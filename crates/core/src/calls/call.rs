//! A call, with its request and its stage.

use std::num::NonZeroU64;

use crate::sessions::SessionId;
use crate::{Deadline, Holds, Lease, Limit, LockId, Monotonic, Owner, OwnerBuf, Token};

/// Identifies a call. Ids are never reused, and a later call has a greater id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(NonZeroU64);

impl CallId {
    pub(super) const FIRST: Self = Self(NonZeroU64::MIN);
    pub(super) const LAST: Self = Self(NonZeroU64::MAX);

    /// The id after this one, or the first.
    pub(super) fn next(before: Option<Self>) -> Self {
        before.map_or(Self::FIRST, |id| Self(id.0.saturating_add(1)))
    }
}

/// The request of a waiting call, and when its wait begins and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The owner.
    pub owner: OwnerBuf,
    /// The requested lease.
    pub lease: Option<Lease>,
    /// How many holds the caller wants to have after the call.
    pub holds: Option<Holds>,
    /// How many holders the caller allows.
    pub limit: Limit,
    /// The session that the grant joins, if any.
    pub session: Option<SessionId>,
    /// True if the caller named a limit, so that its reply includes the limit in force.
    pub names_limit: bool,
    /// The blocked client. A queued call has none: its session gets an event instead.
    pub client_id: Option<u64>,
    /// When the wait began.
    pub since: Monotonic,
    /// When the wait times out; `None` for never.
    pub until: Option<Monotonic>,
}

/// The database and the key of a lock, and the owner of one of its grants.
pub(super) type HolderName<'a> = (i32, &'a [u8], Owner<'a>);

/// A call in the table.
#[derive(Debug)]
pub struct Call<A> {
    /// The request.
    pub waiter: Waiter,
    /// The lock.
    pub lock_id: LockId,
    /// Data of the caller of this crate, kept while the client is blocked.
    pub attached: A,
    /// How many calls stood before it when it joined.
    pub(super) place: usize,
    /// True while the program of the call may be dead or frozen. The call keeps its place, but calls behind it are
    /// granted first.
    pub(super) is_passed_over: bool,
    pub(super) stage: Stage,
}

/// The stage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The call waits in line.
    Waiting,
    /// The call was granted the lock, but its reply is not written yet.
    Granted(Taken),
    /// The reply is written, but the server may still drop it.
    ReplyWritten(Taken),
    /// The reply is sent as far as the client has read, and no other call of the grant was answered.
    ReplySent(Taken),
    /// The client has disconnected, perhaps before it got the reply.
    GivesBack(Taken, Amount),
}

/// How much a call gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Amount {
    /// Its hold, because another call of the grant was answered or is about to be.
    Hold,
    /// The grant.
    Grant,
    /// The grant, unless it has changed: a client that changed the grant knows that it has it.
    UnchangedGrant,
}

/// The hold that a call took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The token of the grant.
    pub token: Token,
    /// True if the call added a hold. A call with `HOLDS` adds none if the owner already has enough.
    pub took_hold: bool,
    /// The hold count after the call.
    pub holds: Holds,
    /// The deadline after the call.
    pub deadline: Deadline,
}

impl<A> Call<A> {
    /// Returns true while the call waits in line.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self.stage, Stage::Waiting)
    }

    /// The database and the key of the lock, and the owner.
    pub(super) fn holder_name(&self) -> HolderName<'_> {
        let LockId { database, key } = &self.lock_id;
        (*database, key, self.waiter.owner.as_owner())
    }

    /// Returns true while calls behind this one are granted first.
    #[must_use]
    pub const fn is_passed_over(&self) -> bool {
        self.is_passed_over
    }
}

impl Waiter {
    /// Returns true if the call blocks no client. Its session then gets an event when the wait ends.
    #[must_use]
    pub const fn is_queued(&self) -> bool {
        self.client_id.is_none()
    }
}

/// The current waits for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWaits {
    /// The number of waits.
    pub count: usize,
    /// The sum of their start times, in microseconds.
    pub since_sum: u128,
    /// When the wait of the first call in line began.
    pub first_since: Monotonic,
}
