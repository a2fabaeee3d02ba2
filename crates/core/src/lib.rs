//! The rules of a lock as plain values and functions, without a server or a clock.
//!
//! The time, the holders of the lock ([`Holders`]) and the settings are arguments. The result says how the lock
//! changes ([`LockChange`]). `docs/design.md` has the layers, of which this crate is the lowest.
//!
//! * A lock has one exclusive holder, or several that all allow as many holders as there are.
//! * A re-entry never shortens a lease; a renewal may.
//! * The token of a new grant is higher than every token seen before.
//! * A refusal changes nothing.
#![forbid(unsafe_code)]

mod change;
pub mod deadlock;
mod effect;
mod give_backs;
mod grant;
mod holder;
mod holder_set;
mod holders;
pub mod keeping;
mod lease_watch;
mod limit;
mod lock_id;
mod map;
mod next_in_line;
pub mod parse;
mod pending_grants;
mod queue;
mod refusal;
mod request;
mod rules;
pub mod sessions;
mod stored;
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

pub use change::{LockChange, Mismatch, SharedChange, SharedStep};
pub use effect::{Effect, EffectBuffer, EffectError, is_quiet};
pub use give_backs::GiveBacks;
pub use grant::{Grant, Holds, Owner, OwnerBuf};
pub use holder::Holder;
pub use holder_set::HolderSet;
pub use holders::{Holders, SharedLock};
pub use lease_watch::LeaseWatch;
pub use limit::Limit;
pub use lock_id::LockId;
pub use map::{Map, Set, shrink_if_sparse};
pub use next_in_line::next_in_line;
pub use queue::{OwnerWaits, QueueId, QueueWaits, Queues, Waiter, WaiterId};
pub use refusal::Refusal;
pub use request::{Acquire, Release, ReleaseAmount, Renew, Rules};
pub use rules::{Granted, Released, acquire, fence, release, renew};
pub use stored::{STORED_FORM, STORED_MARK, StoredError, StoredHolder};
pub use time::{Deadline, Lease, Monotonic, UnixTime};
pub use token::{Token, TokenClock};
