//! Histories of several owners and locks: the rules beside the naive model of the unit tests, and
//! checked against the invariants of the contract.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| redis_lock_core::check_lock_history(bytes));
