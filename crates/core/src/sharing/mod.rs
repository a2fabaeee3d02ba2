//! Sharing: a lock with several holders.
//!
//! **One rule.** With h holders, a call has room when h + 1 exceeds neither its own limit nor any
//! holder's ([`Holders::has_room`]). A plain acquire's limit is 1.
//!
//! **Two forms.** A lock whose one holder has limit 1 is a [`Record`](crate::Record), and its key's expiry
//! is its lease: the rules of `lock.rs` judge it, and nothing here is kept for it. Every other lock is
//! [`Shares`], a lone holder with a wider limit too; each share has its own end. [`Holders`] is either, and
//! tells which of the two it is before a change. Up to 16 shares lie in one piece of memory, each with 14
//! bytes more than a record; more are kept in trees by token and by end, with a hash table of their owners
//! and a count of each limit, so that each step takes O(log h).
//!
//! **Judge, then apply.** As for a lock of one holder, a rule takes the lock, the call and the time, and
//! changes nothing. What comes out is a [`Transition`]. A [`ShareChange`] names the one share that comes,
//! changes or goes; [`ShareChange::apply`] makes it, on the primary and, read from an effect, on replicas.
//! It tells how many shares there are afterwards and when the last ends, so a replica with another lock
//! finds out.
//!
//! **The order of a command**, with one and the same time:
//!
//! 1. [`Holders::expire`]: shares whose lease has ended go. The rules count every share, so that they need
//!    not look for ended ones.
//! 2. Those at the front of the queue who have room are granted ([`next_in_line`]).
//! 3. The call is judged. [`Room::in_line`] says that somebody still waits: who is no holder stands behind.
//! 4. The change is applied; what room it made goes to those at the front, as in 2.
//!
//! Who only looks does no such step, and asks [`Shared::live`].
//!
//! **The end of a lease.** The key's expiry is the latest end. Where it is earlier, somebody cut it by hand
//! (`PEXPIRE`), and a lease ends with the key. Each change first makes such a cut lasting
//! ([`ShareChange::cut`]), then sets the expiry to the latest end. Where it is later (`PERSIST`), nothing
//! ends later for it. An ended lease is found by its own end alone: a key that has expired is gone.
//!
//! **What a cut costs.** Every share that it shortens is moved, so the change after a `PEXPIRE` takes
//! O(log h) for each of them, once.
//!
//! **On the stream** and in files: see `effect.rs` and `stored.rs` here.

mod change;
mod effect;
mod few;
mod holders;
mod line;
mod look;
mod many;
mod rules;
mod share;
mod shares;
mod stored;

pub use change::{Mismatch, ShareChange, Step, Transition};
pub use effect::ShareEffectBuffer;
pub use holders::{Holders, Shared};
pub use line::next_in_line;
pub use rules::{Admitted, Granted, Room, acquire, fence, release, renew};
pub use share::Share;
pub use shares::Shares;
pub use stored::{STORED_FORM, STORED_MARK, ShareFields, StoredError, StoredShares};
