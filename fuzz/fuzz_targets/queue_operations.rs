//! Histories of calls that wait: queues, pending grants and the lease watch beside the naive list of the unit
//! tests.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| redis_lock_core::check_queue_history(bytes));
