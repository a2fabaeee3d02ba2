//! `LOCK.FENCE` of a lock that is shared.

use crate::holders::shared;
use crate::support::{at_once, run};
use redis::Value;
use testbed::{Expect, Talk, cmd};

#[test]
fn every_current_grant_is_fenced_as_right_and_the_lowest_token_is_told() {
    let (_server, mut c, [a, b, d]) = shared(["a", "b", "d"], "SHARED");
    for grant in [&a, &b, &d] {
        cmd!(c, "LOCK.FENCE", "k", grant.token).okay();
    }
    for token in [a.token - 1, d.token + 1, 1] {
        cmd!(c, "LOCK.FENCE", "k", token).refused("FENCED");
    }
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), a.token);
    run(&mut c, "LOCK.RELEASE k a").int();
    cmd!(c, "LOCK.FENCE", "k", a.token).refused("FENCED");
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), b.token);
    run(&mut c, "LOCK.RELEASE k b").int();
    run(&mut c, "LOCK.RELEASE k d").int();
    run(&mut c, "LOCK.FENCE k").nil();
    cmd!(c, "LOCK.FENCE", "k", d.token).refused("FENCED");
}

#[test]
fn in_a_script_it_stops_the_write_that_follows() {
    let (_server, mut c, [a, b]) = shared(["a", "b"], "SHARED");
    let script = "redis.call('LOCK.FENCE', KEYS[1], ARGV[1]) return redis.call('INCR', KEYS[2])";
    for (n, token) in (1..).zip([a.token, b.token, a.token]) {
        assert_eq!(cmd!(c, "EVAL", script, 2, "k", "data", token).int(), n);
    }
    run(&mut c, "LOCK.RELEASE k a").int();
    let error = cmd!(c, "EVAL", script, 2, "k", "data", a.token)
        .reply()
        .expect_err("FENCED");
    assert!(error.text().contains("FENCED"), "{error}");
    assert_eq!(run(&mut c, "GET data").text(), "3");
}

/// `WATCH` guards a grant of limit 1; of a share it wakes at others' changes too.
#[test]
fn watch_fails_at_every_change_of_another_holder() {
    let (server, mut c, [a, _]) = shared(["a", "b"], "SHARED");
    for (change, fails) in [
        ("LOCK.RENEW k b PX 500000", true),
        ("LOCK.INFO k", false),
        ("LOCK.ACQUIRE k x", false),
    ] {
        let mut watches = server.connection();
        run(&mut watches, "WATCH k").okay();
        cmd!(watches, "LOCK.FENCE", "k", a.token).okay();
        run(&mut c, change).value();
        let exec = at_once(&mut watches, &["MULTI", "PING", "EXEC"])
            .pop()
            .expect("EXEC");
        assert_eq!(exec.value() == Value::Nil, fails, "{change}");
    }
    let mut command = crate::support::line("LOCK.FENCE k");
    c.send(command.arg(a.token).arg("more")).refused("ERR");
}
