//! Naive models of the module's rules, which are the oracles of the tests and the quickest way to learn the rules.
//!
//! They follow the command contract alone and share no type with the code under test. Owners, tokens, leases and times
//! are plain numbers. Holders and waiting calls are lists that are searched from the start. A limit of [`lock::NONE`]
//! is greater than every number, and an end of [`lock::NEVER`] is later than every time.
//!
//! * [`lock`]: the locks of a server, and how each command is judged.
//! * [`queue`]: the calls that wait for those locks, and how they end.

pub(crate) mod call;
pub(crate) mod errors;
mod give_back;
pub(crate) mod lock;
pub(crate) mod queue;
