//! Properties of the rules, over histories of several owners and locks under one token clock. A history
//! is compared with a naive model and checked against the invariants of the contract. Tests make
//! histories at random, a fuzz target makes them from bytes.

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
