//! Calls that never wait are never told.

use crate::support::Stage;
use redis::Value;
use testbed::{Expect, cmd, transaction};

#[test]
fn without_block_in_transactions_and_in_scripts() {
    let mut stage = Stage::cycle();
    stage.run("LOCK.ACQUIRE j a").nil();
    let replies = transaction(&mut stage.c, &["LOCK.ACQUIRE j a BLOCK 0"]);
    assert_eq!(replies, [Value::Nil]);
    let script = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'a', 'BLOCK', 0)";
    cmd!(stage.c, "EVAL", script, 1, "j").nil();
    let code = "#!lua name=locks
        redis.register_function('take', function(keys, args)
            return redis.call('LOCK.ACQUIRE', keys[1], args[1], 'BLOCK', 0)
        end)";
    cmd!(stage.c, "FUNCTION", "LOAD", code).text();
    cmd!(stage.c, "FCALL", "take", 1, "j", "a").nil();
    stage.all_wait();
    assert_eq!(stage.count(), 0);
    stage.told("j a", 2);
}

#[test]
fn who_gets_the_lock_at_once_is_not_judged() {
    let mut stage = Stage::cycle();
    // Re-entry, and a lock that is free.
    stage.run("LOCK.ACQUIRE k a BLOCK 0").grant();
    stage.run("LOCK.ACQUIRE free a BLOCK 0").grant();
    stage.run("LOCK.ACQUIRE k b").nil();
    assert_eq!(stage.count(), 0);
}
