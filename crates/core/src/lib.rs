//! The logic of locks, without a server or a clock: the rules, waiting calls, sessions, deadlock detection, parsing and
//! encodings.
//!
//! Functions take the time and the settings as arguments. This crate is the lowest layer in `docs/design.md`.
//!
//! * A lock never has more holders than the limit of any of them allows.
//! * A re-entry never shortens a lease; a renewal may.
//! * The token of a new grant is higher than every token seen before.
//! * A refusal changes nothing.
#![forbid(unsafe_code)]

mod calls;
mod change;
pub mod deadlock;
mod effect;
mod grant;
mod holder;
mod holder_set;
mod holders;
mod limit;
mod lock_id;
mod map;
mod next_in_line;
pub mod parse;
mod refusal;
mod request;
mod rules;
pub mod sessions;
mod shards;
mod stored;
mod time;
mod token;

#[cfg(test)]
mod deadlock_properties;
#[cfg(any(test, fuzzing))]
mod model;
#[cfg(any(test, fuzzing))]
mod properties;
#[cfg(test)]
mod sessions_properties;

#[cfg(fuzzing)]
pub use properties::{check_lock_history, check_queue_history};

pub use calls::{
    Call, CallId, Calls, GiveBack, LineId, OwnerWaits, PassOverPlace, QueueWaits, Taken, Waiter,
};
pub use change::{LockChange, Mismatch, SharedChange, SharedStep};
pub use effect::{Effect, EffectBuffer, EffectError, is_quiet};
pub use grant::{Grant, Holds, Owner, OwnerBuf};
pub use holder::Holder;
pub use holder_set::HolderSet;
pub use holders::{Holders, SharedLock};
pub use limit::Limit;
pub use lock_id::LockId;
pub use map::{Map, Set, shrink_if_sparse};
pub use next_in_line::next_in_line;
pub use refusal::Refusal;
pub use request::{Acquire, Release, ReleaseAmount, Renew, Rules};
pub use rules::{Granted, Released, acquire, fence, release, renew};
pub use stored::{STORED_FORM, STORED_MARK, StoredError, StoredHolder};
pub use time::{Deadline, Lease, Monotonic, UnixTime};
pub use token::{Token, TokenClock};
