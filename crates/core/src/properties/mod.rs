//! Histories of several owners and locks, under one token clock: told beside a naive model, and
//! held to the promises of the contract without it. Random ones in the tests, and what a fuzzer
//! makes of bytes.

mod history;
#[cfg(fuzzing)]
mod input;
mod model;
mod promises;
#[cfg(test)]
mod strategies;
#[cfg(test)]
mod tests;
mod world;

#[cfg(fuzzing)]
pub use input::check;
