//! The sentences of the contract, tried on the code and the models side by side, over histories of calls and events.
//!
//! A history is a run of bytes. Each step is chosen by the next bytes in the state that the model is in, so that
//! its numbers are often close to the limit of a rule. Tests make the bytes at random; a fuzz target is given them.

mod choices;
#[cfg(test)]
mod examples;
mod locks;
mod queue;

#[cfg(fuzzing)]
pub use {locks::check as check_lock_history, queue::check as check_queue_history};
