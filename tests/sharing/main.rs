//! Sharing, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of locks with several holders.

mod announced;
mod bounds;
mod carried;
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
