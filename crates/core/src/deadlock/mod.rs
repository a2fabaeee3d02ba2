//! Deadlock: who would wait in a circle is told so before it begins to wait.
//!
//! **Who waits for whom.** An owner waits for each holder that must go before it can get in: all holders,
//! where its call, or another owner's before it in line, has limit 1; else the one whose own limit is 1.
//! (`MustGo`.) With room for some, nobody in particular must go. Of an owner's calls in one line the first
//! counts, since the others are judged together with it. An owner that waits for two locks is not one
//! task: nothing is known of what it may still do, so nothing leads on through it.
//!
//! **Why an answer is true.** In a circle each owner waits for one lock, and is let in there only when the
//! next one in the circle goes, which waits itself. So none of them goes, whatever the others do, until
//! one is told not to wait, gives up, or loses a lease.
//!
//! **The search** follows the waits breadth first, so the shortest circle is found. The holders of a lock
//! are in its key, which the server opens, and opening a key may come back to the calls. So the search
//! is no function that calls for holders: it is a value between two steps. [`Search::begin`] looks at the
//! lock that is open already; most searches end there, with nothing allocated, for its holders wait for
//! nothing. Else [`Search::next_lock`] names a lock to open and [`Search::look`] takes its holders. Each
//! borrows the calls for itself, and trusts nothing that it has seen before without a look: what no
//! longer waits is passed over.
//!
//! Where the call that counts is that of a holder of the same lock, the lock leads nowhere: the call is
//! about to be judged as a re-entry. (Only a key that was restored or renamed gets so.)

mod circle;
mod search;

pub use circle::Circle;
pub use search::{MAX_STEPS, Search};

#[cfg(test)]
mod tests;
