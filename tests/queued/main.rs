//! Queued calls, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of queued calls, each test a sentence of it.

mod support;

mod arguments;
mod away;
mod closing;
mod coming_back;
mod counted;
mod delivery;
mod ended;
mod freed;
mod granted;
mod held_back;
mod limits;
mod look;
mod many;
mod mixed;
mod precedence;
mod repeated;
mod replies;
mod rights;
mod roles;
mod silent;
mod stalls;
