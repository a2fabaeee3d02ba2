//! Races: what may happen to a waiting call in the moment in which it is granted, against a real
//! server (`REDIS_SERVER`). After each, the state, the replica and the append-only file agree.

mod chains;
mod clocks;
mod closing;
mod ends;
mod pauses;
mod roles;
mod stalls;
mod unsent;
