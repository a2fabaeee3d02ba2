//! Sharing, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of locks with several holders.

mod carried;
mod ends;
mod expiry;
mod holders;
mod limits;
mod look;
mod many;
mod room;
mod stored;
