//! Queued calls, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of queued calls, each test a sentence of it.

mod support;

mod away;
mod ends;
mod events;
mod limits;
mod line;
mod look;
mod many;
mod passed_over;
mod replies;
mod rights;
mod stalls;
