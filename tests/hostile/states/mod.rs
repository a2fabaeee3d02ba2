//! Connections in every state that a server knows, and `LOCK.*` commands from each: nothing crashes,
//! nothing hangs, and no lock is held for somebody who was never told and is gone.
//!
//! `HOSTILE_CASES` says how many cases are played of all states and pairs of states, `HOSTILE_SECONDS`
//! how long connections then walk from state to state at random.

mod arena;
mod case;
mod catalogue;
mod every;
mod forms;
mod peer;
mod round;
mod script;
mod walk;
mod walker;
