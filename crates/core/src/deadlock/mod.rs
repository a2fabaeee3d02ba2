//! Deadlock detection: a call that would create a cycle of waiting owners fails before it waits.
//!
//! **The graph.** An owner waits for each holder that must release the lock first (`MustGo`): all holders, if its
//! call or another owner's call before it in line has limit 1; otherwise the holder whose own limit is 1. A caller
//! that waits for one of several permits waits for no holder in particular. Of an owner's calls in one line only the
//! first counts, because the others are granted together with it. An owner that waits for two locks is not one task,
//! so the search does not continue through it.
//!
//! **Why there are no false alarms.** Each owner in a cycle waits for one lock, and is granted it only when the next
//! owner in the cycle releases it, which itself waits. So the cycle remains, whatever the others do, until one of its
//! calls fails or times out, or a lease expires.
//!
//! **The search** is breadth first, so it finds the shortest cycle. It runs in steps, and [`Search`] keeps the state
//! between them. The reason is that the holders of a lock are in its key, and when the server opens a key, it may call
//! back into the calls. [`Search::begin`] visits the lock that is open already. Most searches end there without an
//! allocation, because no holder is waiting. Otherwise [`Search::next_lock`] returns a lock to open, and
//! [`Search::visit`] takes its holders. Each of these functions borrows the calls separately. So it checks again
//! whether the calls that were found before still wait, and skips those that do not.
//!
//! The search does not follow a lock that the waiting owner holds itself, because the call is about to be judged as a
//! re-entry. (This happens only with a restored or renamed key.)

mod cycle;
mod search;

pub use cycle::Cycle;
pub use search::{MAX_STEPS, Search};

#[cfg(test)]
mod tests;
