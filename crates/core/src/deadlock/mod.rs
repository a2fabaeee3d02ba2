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
//! **The search** follows the waits breadth first, so the shortest cycle is found. The holders of a lock
//! are in its key, which the server opens, and opening a key may call back into the calls. So the search
//! is done in steps; [`Search`] keeps the state between them. [`Search::begin`] looks at the lock that is
//! open already. Most searches end there, with nothing allocated, because no holder is waiting. Otherwise
//! [`Search::next_lock`] names a lock to open and [`Search::look`] takes its holders. Each of these functions borrows
//! the calls separately, and checks again what an earlier one has seen: a call that no longer waits is skipped.
//!
//! If the owner whose call counts holds that lock itself, the search does not follow the lock: the call is about to be
//! judged as a re-entry. (Only a restored or renamed key gets into this state.)

mod cycle;
mod search;

pub use cycle::Cycle;
pub use search::{MAX_STEPS, Search};

#[cfg(test)]
mod tests;
