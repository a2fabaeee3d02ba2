//! Waiting in line, rule by rule, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of waiting, each test a rule of it.

mod barging;
mod connections;
mod flushing;
mod freeing;
mod held_back;
mod leaving;
mod limit;
mod look;
mod many;
mod memory;
mod moving;
mod order;
mod overwriting;
mod owners;
mod pause;
mod role;
mod shutdown;
mod subscribed;
mod time;
mod unblock;
