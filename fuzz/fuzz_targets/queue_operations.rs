//! Histories of waiting calls, checked as in the property tests of the core.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| redis_lock_core::check_queue_history(bytes));
