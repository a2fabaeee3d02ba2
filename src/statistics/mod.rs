//! What an operator is told of the locks of this server: counters, times and the hottest keys.
//!
//! Counters count what this process has done as a primary since it was started. Nothing of this is
//! stored or replicated, and nothing in here decides anything.

mod counters;
mod recent;

pub(crate) use counters::{Counter, count, counted, uncount};
pub(crate) use recent::{
    WaitEnd, expired, hold_ended, hold_times, hottest, wait_ended, wait_times,
};
