//! The first word of an error is for programs: `INFO errorstats` counts by it.

use crate::support::{now_us, run};
use redis::Connection;
use testbed::{Expect, Server, cmd, started, words};

/// How often errors of this code were replied.
fn counted(server: &Server, code: &str) -> u64 {
    let stats = server.info("errorstats");
    let Some(count) = stats.get(&format!("errorstat_{code}")) else {
        return 0;
    };
    let count = count.strip_prefix("count=").expect("a count");
    count.parse().expect("a number")
}

/// A call for each error, on the lock k of a and the string text.
fn calls(c: &mut Connection) -> [(&'static str, String); 6] {
    let token = run(c, "LOCK.ACQUIRE k a PX 600000").grant().token;
    run(c, "SET text value").okay();
    let ahead = now_us() + 3_600_000_000;
    let far = format!("LOCK.RENEW k a TOKEN {token} RAISE {ahead}");
    [
        ("ERR", "LOCK.ACQUIRE k a PX 0".to_owned()),
        ("WRONGTYPE", "LOCK.INFO text".to_owned()),
        ("NOTHELD", "LOCK.RELEASE free a".to_owned()),
        ("NOTOWNER", "LOCK.RELEASE k b".to_owned()),
        ("FENCED", "LOCK.FENCE k 1".to_owned()),
        ("AHEAD", far),
    ]
}

#[test]
fn each_error_is_counted_by_its_code() {
    let (server, mut c) = started();
    let calls = calls(&mut c);
    run(&mut c, "CONFIG RESETSTAT").okay();
    for (code, line) in &calls {
        for times in 1..=3 {
            run(&mut c, line).refused(code);
            assert_eq!(counted(&server, code), times, "{line}");
        }
    }
    assert_eq!(server.info("errorstats").len(), calls.len());
}

#[test]
fn an_error_that_stops_a_script_or_comes_in_a_transaction_is_counted_once() {
    let (server, mut c) = started();
    let calls = calls(&mut c);
    run(&mut c, "CONFIG RESETSTAT").okay();
    for (code, line) in &calls {
        let words = words(line);
        let script = "return redis.call(unpack(ARGV))";
        cmd!(c, "EVAL", script, 0, words).refused(code);
        assert_eq!(counted(&server, code), 1, "{line} in a script");
        run(&mut c, "MULTI").okay();
        run(&mut c, line).value();
        run(&mut c, "EXEC").items().remove(0).refused(code);
        assert_eq!(counted(&server, code), 2, "{line} in a transaction");
    }
}

#[test]
fn an_error_says_something_behind_its_code() {
    let server = Server::start();
    for mut c in [server.connection(), server.connection_resp3()] {
        for (code, line) in calls(&mut c) {
            let text = run(&mut c, &line).refused(code);
            assert!(text.len() > code.len() + 10, "{text}");
        }
    }
}

#[test]
fn each_text_fits_the_call_that_it_answers() {
    let (_server, mut c) = Server::builder().config("lock.max-waiters", "0").started();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    for (line, code, says, says_not) in [
        ("LOCK.RELEASE free a", "NOTHELD", "free", "holds"),
        ("LOCK.RELEASE free a ALL", "NOTHELD", "free", "holds"),
        ("LOCK.RENEW free a", "NOTHELD", "free", "holds"),
        ("LOCK.ACQUIRE free a TOKEN 1", "NOTHELD", "free", "holds"),
        ("LOCK.ACQUIRE free a HOLDS 2", "NOTHELD", "free", "fewer"),
        ("LOCK.ACQUIRE k a HOLDS 3", "NOTHELD", "fewer holds", "free"),
        (
            "LOCK.ACQUIRE k b BLOCK 0",
            "MAXWAITERS",
            "this lock",
            "server",
        ),
        (
            "LOCK.HOTKEYS COUNT 0",
            "ERR",
            "COUNT takes the maximum",
            "calls",
        ),
        (
            "LOCK.WAITERS k COUNT 0",
            "ERR",
            "COUNT takes the maximum",
            "keys",
        ),
    ] {
        let text = run(&mut c, line).refused(code);
        assert!(text.contains(says), "{line}: {text}");
        assert!(!text.contains(says_not), "{line}: {text}");
    }
    let settings = "CONFIG SET lock.max-waiters 9 lock.max-waiters-total 0";
    run(&mut c, settings).okay();
    let text = run(&mut c, "LOCK.ACQUIRE k b BLOCK 0").refused("MAXWAITERS");
    assert!(text.contains("server"), "{text}");
}
