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

mod flight;
mod give_backs;
mod grant;
mod hot_keys;
mod lock;
mod map;
mod queue;
mod recent_times;
mod record;
pub mod requests;
mod time;
mod token;
mod watch;

#[cfg(any(test, fuzzing))]
mod properties;
#[cfg(any(test, fuzzing))]
mod queue_properties;

pub use flight::{Flights, GiveBack, Handed, Told};
#[cfg(fuzzing)]
pub use properties::check as check_lock_history;
#[cfg(fuzzing)]
pub use queue_properties::check as check_queue_history;

pub use give_backs::GiveBacks;
pub use grant::{Grant, Held, Holds, Owner, OwnerBuf};
pub use hot_keys::{Heat, HotKeys};
pub use lock::{
    Acquire, Acquired, Change, Refusal, Release, ReleaseAmount, Released, Renew, Renewed, Rules,
    Times, acquire, fence, release, renew,
};
pub use map::{Map, Set, give_room_back};
pub use queue::{Monotonic, Place, Queues, Waiter, WaiterId};
pub use recent_times::{RecentTimes, TimesSummary};
pub use record::{FieldError, Fields, Record, RecordBuffer, RecordError};
pub use time::{Deadline, Lease, UnixTime};
pub use token::{Token, TokenClock};
pub use watch::Watch;
