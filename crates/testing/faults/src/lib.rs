//! Runs under faults: clients of the lock work on real servers while these are killed, stopped, cut off,
//! filled and moved, and what they were answered is checked.
//!
//! - A **workload** is what clients do: `locks` or `quorum`. It has one or more
//!   **configurations**: which servers, which faults, and what must hold.
//! - An **operation** is one thing that a client does, such as a call.
//! - The **nemesis** injects **faults** while clients work.
//! - A **run** is one configuration played once, with a seed that decides the choices.
//! - The **history** is what the clients of a run recorded; the **checker** (the package `history`)
//!   says whether a correct lock could have answered so.

mod campaign;
mod clock;
mod connection;
mod locks;
mod mutants;
mod nemesis;
mod quorum;
mod register;
mod run;
mod table;
mod tally;
mod workload;

pub use campaign::{Choice, play};
pub use locks::workload as locks;
pub use mutants::run as mutants;
pub use quorum::{contend, workload as quorum};
pub use run::Findings;
pub use tally::Tally;
pub use workload::{Configuration, Workload};
