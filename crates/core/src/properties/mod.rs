//! Tests the sentences of the contract on the code and the models side by side, over histories of calls and events.
//!
//! A history is a sequence of bytes. The next bytes and the state of the model choose each step, so that its numbers
//! are often close to the limit of a rule. Tests generate random bytes, and a fuzz target gets them from the fuzzer.

mod choices;
#[cfg(test)]
mod examples;
mod locks;
mod queue;

#[cfg(fuzzing)]
pub use {locks::check as check_lock_history, queue::check as check_queue_history};
