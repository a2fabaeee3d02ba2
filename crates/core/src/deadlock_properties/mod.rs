//! Tests the search for deadlocks against two naive models. One follows the rule word for word. The other plays every
//! continuation, and so finds out whether the caller can ever get the lock.

mod game;
mod rule;
mod system;
mod tests;
