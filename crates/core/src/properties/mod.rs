//! Histories of several owners and locks, under one token clock: compared with a naive model, and
//! checked against the invariants of the contract without it. Random ones in the tests, and what a fuzzer
//! makes of bytes.

mod history;
#[cfg(fuzzing)]
mod input;
mod invariants;
mod model;
#[cfg(test)]
mod strategies;
mod system;
#[cfg(test)]
mod tests;

#[cfg(fuzzing)]
pub use input::check;
