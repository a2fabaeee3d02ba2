//! Connections in every state that a server knows, and `LOCK.*` commands from each: nothing crashes,
//! nothing hangs, and nobody holds a lock who was not told so.
//!
//! `HOSTILE_CASES` says how many cases are played of those that the states, the pairs of states and the
//! commands make: the first 6,300 are every command in every state, and each 5,000 more are every pair of
//! states once. `SEED` repeats the choices, though not their timing. At random, and with an administrator who
//! disturbs them, connections meet in `make storm`.

mod arena;
mod batch;
mod case;
mod catalogue;
mod every;
mod forms;
mod peer;
mod script;
