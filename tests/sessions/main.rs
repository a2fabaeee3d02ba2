//! Sessions, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of sessions, each test a sentence of it.

mod arguments;
mod blocking;
mod callers;
mod closing;
mod life;
mod look;
mod losses;
mod many;
mod membership;
mod polling;
mod renewing;
mod stalls;
