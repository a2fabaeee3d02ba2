//! Properties of waiting, over histories of waiting calls. A history is compared with a naive list and
//! checked against the invariants of the contract. Tests make histories at random, a fuzz target makes
//! them from bytes.

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
