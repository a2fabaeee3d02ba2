//! What an operator is told, and what the users of a server may do, against a real server
//! (`REDIS_SERVER`).

mod pauses;
mod support;

mod counters;
mod endings;
mod events;
mod gauges;
mod hot_keys;
mod users;
