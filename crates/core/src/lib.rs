//! The rules of a lock as plain values and functions, without a server or a clock.
//!
//! The time, the lock ([`Held`]) and the settings are arguments; the result says how the lock changes
//! ([`Change`]). `docs/design.md` has the layers, of which this crate is the lowest.
//!
//! * A lock has one owner at a time, with a hold count.
//! * A re-entry never shortens a lease; a renewal may.
//! * The token of a new grant is higher than every token seen before.
//! * A refusal changes nothing.
#![forbid(unsafe_code)]

pub mod deadlock;
mod effect;
mod give_backs;
mod grant;
pub mod keeping;
mod lease_watch;
mod limit;
mod lock;
mod lock_id;
mod map;
mod pending_grants;
mod queue;
mod record;
pub mod requests;
pub mod sessions;
pub mod sharing;
mod time;
mod token;

#[cfg(test)]
mod deadlock_properties;
#[cfg(test)]
mod keeping_properties;
#[cfg(any(test, fuzzing))]
mod properties;
#[cfg(any(test, fuzzing))]
mod queue_properties;
#[cfg(test)]
mod sessions_properties;
#[cfg(test)]
mod sharing_properties;

pub use pending_grants::{GiveBack, PendingGrant, PendingGrants, UnconfirmedGrant};
#[cfg(fuzzing)]
pub use properties::check as check_lock_history;
#[cfg(fuzzing)]
pub use queue_properties::check as check_queue_history;

pub use effect::{Effect, EffectBuffer, EffectError, is_quiet};
pub use give_backs::GiveBacks;
pub use grant::{Grant, Held, Holds, Owner, OwnerBuf};
pub use lease_watch::LeaseWatch;
pub use limit::Limit;
pub use lock::{
    Acquire, Acquired, Change, Refusal, Release, ReleaseAmount, Released, Renew, Renewed, Rules,
    Times, acquire, fence, release, renew,
};
pub use lock_id::LockId;
pub use map::{Map, Set, shrink_if_sparse};
pub use queue::{OwnerWaits, QueueId, QueueWaits, Queues, Waiter, WaiterId};
pub use record::{FieldError, Fields, Record, RecordBuffer, RecordError};
pub use time::{Deadline, Lease, Monotonic, UnixTime};
pub use token::{Token, TokenClock};
