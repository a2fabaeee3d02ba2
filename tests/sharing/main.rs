//! Sharing, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of locks with several holders.

#[path = "../waiting/copies.rs"]
#[allow(dead_code)] // shared with the tests of waiting
mod copies;
#[path = "../waiting/support.rs"]
#[allow(dead_code)] // shared with the tests of waiting
mod support;

mod announced;
mod bounds;
mod carried;
mod cluster;
mod ends;
mod entering;
mod expiry;
mod fencing;
mod gone;
mod holders;
mod look;
mod many;
mod order;
mod own_limit;
mod room;
mod room_comes;
mod stored;
