//! Fencing tokens: they strictly rise from grant to grant, over all keys, until none is left.

use crate::support::{HIGHEST_TOKEN, last_token, now_us, run};
use testbed::{Expect, cmd, effect, started};

#[test]
fn tokens_strictly_rise_over_all_keys_and_databases() {
    let (_server, mut c) = started();
    let mut last = 0;
    for round in 0..300 {
        cmd!(c, "SELECT", round % 3).okay();
        let key = format!("k{}", round % 7);
        let owner = format!("o{}", round % 5);
        let token = cmd!(c, "LOCK.ACQUIRE", key, owner).grant().token;
        assert!(token > last, "{token} after {last}");
        last = token;
        match round % 3 {
            0 => cmd!(c, "LOCK.RELEASE", key, owner).int(),
            1 => cmd!(c, "DEL", key).int(),
            _ => cmd!(c, "PEXPIRE", key, 0).int(),
        };
    }
}

#[test]
fn the_clock_outlives_every_lock() {
    let (_server, mut c) = started();
    let ahead = now_us() + 3_600_000_000;
    cmd!(c, "LOCK._APPLY", "k", effect("a", ahead, 1, 1000, -1)).okay();
    cmd!(c, "FLUSHALL").okay();
    assert_eq!(last_token(&mut c), ahead);
    assert_eq!(run(&mut c, "LOCK.ACQUIRE k a").grant().token, ahead + 1);
}

#[test]
fn lua_writes_a_token_with_a_format_of_no_decimals() {
    let (_server, mut c) = started();
    let acquire = "local token = redis.call('LOCK.ACQUIRE', KEYS[1], 'a')[1] \
        return {string.format('%.0f', token), tostring(token), token}";
    let reply = cmd!(c, "EVAL", acquire, 1, "k").items();
    let token = run(&mut c, "LOCK.FENCE k").int();
    assert_eq!(reply[0].clone().text(), token.to_string());
    assert_ne!(reply[1].clone().text(), token.to_string());
    assert_eq!(reply[2].clone().int(), token);

    let highest = effect("a", HIGHEST_TOKEN, 1, 1000, -1);
    cmd!(c, "LOCK._APPLY", "k", highest).okay();
    let fence = "return redis.call('LOCK.FENCE', KEYS[1], \
        string.format('%.0f', redis.call('LOCK.FENCE', KEYS[1])))";
    cmd!(c, "EVAL", fence, 1, "k").okay();
}
