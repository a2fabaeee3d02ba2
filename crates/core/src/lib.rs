//! The rules of a lock, as plain values and functions.
//!
//! Nothing in here knows Redis, reads a clock or keeps a connection: the time comes in as an
//! argument, what a key holds comes in as [`Held`], and what must happen to it goes out as a
//! [`Change`]. So every rule can be tried by the thousand without a server.
//!
//! * one owner at a time, and a hold count for it;
//! * a lease is never shortened by re-entry, only by a renewal;
//! * each grant's token is higher than every token seen before it;
//! * a refusal changes nothing.
#![forbid(unsafe_code)]

mod give_backs;
mod grant;
mod lease_watch;
mod lock;
mod map;
mod pending_grants;
mod queue;
mod record;
pub mod requests;
mod time;
mod token;

#[cfg(any(test, fuzzing))]
mod properties;
#[cfg(any(test, fuzzing))]
mod queue_properties;

pub use pending_grants::{GiveBack, PendingGrant, PendingGrants, UnconfirmedGrant};
#[cfg(fuzzing)]
pub use properties::check as check_lock_history;
#[cfg(fuzzing)]
pub use queue_properties::check as check_queue_history;

pub use give_backs::GiveBacks;
pub use grant::{Grant, Held, Holds, Owner, OwnerBuf};
pub use lease_watch::LeaseWatch;
pub use lock::{
    Acquire, Acquired, Change, Refusal, Release, ReleaseAmount, Released, Renew, Renewed, Rules,
    Times, acquire, fence, release, renew,
};
pub use map::{Map, Set, shrink_if_sparse};
pub use queue::{LockId, Monotonic, QueueWaits, Queues, Waiter, WaiterId};
pub use record::{FieldError, Fields, Record, RecordBuffer, RecordError};
pub use time::{Deadline, Lease, UnixTime};
pub use token::{Token, TokenClock};
