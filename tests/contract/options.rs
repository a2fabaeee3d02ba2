//! The options of the commands: their keywords, in any order. What else is refused is shown in the core
//! (`parse/tests.rs`, `parse/acquire_tests.rs`).

use crate::arguments::{refused_everywhere, three_keys};
use crate::support::run;
use testbed::{Expect, Server, cmd, started};

/// All orders of these words.
fn orders(parts: &[String]) -> Vec<Vec<String>> {
    if parts.is_empty() {
        return vec![vec![]];
    }
    let mut all = Vec::new();
    for (at, first) in parts.iter().enumerate() {
        let mut rest = parts.to_vec();
        rest.remove(at);
        for mut order in orders(&rest) {
            order.insert(0, first.clone());
            all.push(order);
        }
    }
    all
}

fn alternate_case(text: &str) -> String {
    let change = |(at, letter): (usize, char)| {
        if at % 2 == 0 {
            letter.to_ascii_lowercase()
        } else {
            letter
        }
    };
    text.chars().enumerate().map(change).collect()
}

#[test]
fn an_unknown_option_of_any_bytes_breaks_no_reply() {
    let server = Server::start();
    let long = vec![b'x'; 100_000];
    let options: [&[u8]; 9] = [
        b"",
        b" ",
        b"PX\0",
        b"PX ",
        b"\r\n+OK\r\n",
        b"\xff\xfe",
        b"%s%s%n",
        b"P\xd7",
        &long,
    ];
    for mut c in [server.connection(), server.connection_resp3()] {
        cmd!(c, "FLUSHALL").okay();
        three_keys(&mut c);
        for command in ["LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.RENEW"] {
            for option in options {
                let arguments = [b"a".to_vec(), option.to_vec(), b"1".to_vec()];
                refused_everywhere(&mut c, command, &arguments, "unknown option");
            }
        }
    }
}

#[test]
fn keywords_are_taken_in_any_case_and_any_order() {
    let (_server, mut c) = started();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    let option = |name: &str, value: i64| format!("{name} {value}");
    let acquire = [
        option("PX", 500_000),
        option("BLOCK", 0),
        option("HOLDS", 1),
        option("TOKEN", token),
    ];
    let renew = [
        option("EX", 500),
        option("TOKEN", token),
        option("RAISE", token),
    ];
    let release = [option("HOLDS", 5), option("TOKEN", token)];
    for (name, options) in [
        ("LOCK.ACQUIRE", &acquire[..]),
        ("LOCK.RENEW", &renew),
        ("LOCK.RELEASE", &release),
    ] {
        for order in orders(options) {
            let line = format!("{name} k a {}", order.join(" "));
            run(&mut c, &line).value();
            run(&mut c, &line.to_lowercase()).value();
            let mixed = alternate_case(&order.join(" "));
            run(&mut c, &format!("{name} k a {mixed}")).value();
        }
    }
    let info = run(&mut c, "LOCK.INFO k").lock_info();
    assert_eq!((info.holds, info.lease_ms, info.token), (1, 500_000, token));
    let release = format!("lock.Release k a tOkEn {token} aLl");
    assert_eq!(run(&mut c, &release).int(), 0);
}
