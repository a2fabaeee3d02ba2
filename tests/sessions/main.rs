//! Sessions, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of sessions, each test a sentence of it.

mod arguments;
mod blocking;
mod callers;
mod clocks;
mod closing;
mod flushing;
mod life;
mod look;
mod losses;
mod many;
mod membership;
mod polling;
mod precedence;
mod renewing;
mod roles;
mod stalls;
mod takeover;
