//! Naive models of the module's rules: the oracles of the tests, and the quickest way to learn the rules.
//!
//! They are written from the command contract alone and share no type with the code that they judge. Owners,
//! tokens, leases and times are plain numbers. Holders and waiting calls are lists, searched from the start.
//! A limit of [`lock::NONE`] is above every number, and an end of [`lock::NEVER`] is after every time.
//!
//! * [`lock`]: the locks of a server, and how each command is judged.
//! * [`queue`]: the calls that wait for those locks, and what becomes of them.

pub(crate) mod call;
pub(crate) mod errors;
mod give_back;
pub(crate) mod lock;
pub(crate) mod queue;
