//! Hostile callers: random commands with the worst of arguments, stored values that were
//! tampered with, and connections in every state that there is. Afterwards the server is up and every
//! rule holds.
//!
//! `SEED` repeats a run; `HOSTILE_COMMANDS`, `HOSTILE_PAYLOADS` and `HOSTILE_CASES` say how much is sent.

mod commands;
mod grammar;
mod invariants;
mod payloads;
mod resp;
mod states;
mod values;
mod wire;

use std::env;
use testbed::traffic::seed;
use testbed::{Expect, Reply, Server, Talk, cmd, dump, effect, started};

/// A number from the environment.
fn amount(variable: &str, default: usize) -> usize {
    match env::var(variable) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => default,
    }
}
