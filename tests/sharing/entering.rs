//! Owners of any bytes share; nobody waits where nobody may. The words are shown in the core
//! (`parse/tests.rs`, `parse/acquire_tests.rs`).

use crate::holders::shared;
use testbed::{Expect, cmd, owners, run, transaction};

#[test]
fn transactions_scripts_and_functions_do_as_calls_do_and_never_wait() {
    let (_server, mut c, _) = shared(["a"], "LIMIT 2");
    let exec = transaction(
        &mut c,
        &[
            "LOCK.ACQUIRE k b LIMIT 2 BLOCK 0",
            "LOCK.ACQUIRE k d LIMIT 2 BLOCK 0",
            "LOCK.RELEASE k a",
            "LOCK.ACQUIRE k d LIMIT 2 BLOCK 0",
            "LOCK.RENEW k d LIMIT 1",
            "LOCK.HOLDERS k",
        ],
    );
    assert_eq!(exec[0].clone().grant().limit, Some(2));
    exec[1].clone().nil();
    assert_eq!(exec[3].clone().grant().limit, Some(2));
    exec[4].clone().refused("NOTALONE");
    assert_eq!(exec[5].clone().items().len(), 2);
    let script = "local call = redis.call
        local full = call('LOCK.ACQUIRE', KEYS[1], 'e', 'LIMIT', 2, 'BLOCK', 0)
        call('LOCK.RELEASE', KEYS[1], 'b')
        local grant = call('LOCK.ACQUIRE', KEYS[1], 'e', 'SHARED')
        local alone = redis.pcall('LOCK.ACQUIRE', KEYS[1], 'e')
        return {tostring(full), grant[5], alone.err, #call('LOCK.HOLDERS', KEYS[1])}";
    let reply = cmd!(c, "EVAL", script, 1, "k").items();
    assert_eq!(
        (reply[0].clone().text(), reply[1].clone().int()),
        ("false".to_owned(), 0)
    );
    assert!(reply[2].clone().text().starts_with("NOTALONE "));
    assert_eq!(reply[3].clone().int(), 2);
    let function = "#!lua name=f\nredis.register_function('share', function(keys)
        return #redis.call('LOCK.ACQUIRE', keys[1], 'f', 'SHARED', 'BLOCK', '0') end)";
    cmd!(c, "FUNCTION", "LOAD", function).text();
    run(&mut c, "LOCK.RELEASE k d").int();
    assert_eq!(cmd!(c, "FCALL", "share", 1, "k").int(), 5);
    assert_eq!(owners(&mut c), ["e", "f"]);
}
