//! Deadlock, sentence by sentence, against a real server (`REDIS_SERVER`).
//!
//! Each module is one part of what the contract says of calls that would wait in a cycle.

mod support;

mod cycles;
mod databases;
mod gone;
mod never;
mod on_the_way;
mod precedence;
mod replica;
mod said;
mod setting;
mod steps;
mod tasks;
