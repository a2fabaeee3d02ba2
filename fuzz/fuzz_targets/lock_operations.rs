//! Histories of several owners and locks, checked as in the property tests of the core.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| redis_lock_core::check_lock_history(bytes));
