//! Statistics for the operator: counters, times and the hottest keys.
//!
//! They cover what this process has done as a primary since it started. They are neither stored nor replicated, and no
//! decision depends on them.

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
