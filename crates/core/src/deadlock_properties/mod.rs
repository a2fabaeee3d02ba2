//! The search for deadlocks beside two naive models: one reads the rule word for word, the other plays
//! every continuation and so tells whether the caller can ever get in.

mod game;
mod rule;
mod system;
mod tests;
