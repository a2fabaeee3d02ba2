//! What an operator is told of the locks of this server: counters, times and the hottest keys.
//!
//! Counters count what this process has done as a primary since it was started. Nothing of this is
//! stored or replicated, and nothing in here decides anything.

mod counters;
mod hot_keys;
mod recent;
mod recent_times;

pub(crate) use counters::{COUNTERS, Counter, count, counted, uncount};
pub(crate) use hot_keys::KeyStats;
pub(crate) use recent::{
    WaitEnd, expired, hold_ended, hold_times, hottest, wait_ended, wait_times,
};
pub(crate) use recent_times::TimesSummary;
