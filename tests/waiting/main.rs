//! Waiting in line, rule by rule, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of waiting, each test a rule of it.

mod connections;
mod freeing;
mod held_back;
mod leaving;
mod limit;
mod look;
mod many;
mod moving;
mod order;
mod owners;
mod role;
mod time;
