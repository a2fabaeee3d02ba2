//! The options of the commands: their keywords, and each of them once, in any order.

use crate::arguments::{refused_everywhere, three_keys, words};
use crate::support::run;
use testbed::{Expect, Server, cmd};

/// Each command with an owner, and its options with a value that fits.
const OPTIONS: [(&str, &[&str]); 3] = [
    (
        "LOCK.ACQUIRE",
        &["PX 500000", "EX 500", "BLOCK 0", "HOLDS 1", "TOKEN 7"],
    ),
    ("LOCK.RELEASE", &["ALL", "HOLDS 0", "TOKEN 7"]),
    ("LOCK.RENEW", &["PX 500000", "EX 500", "TOKEN 7", "RAISE 8"]),
];

fn keyword(option: &str) -> &str {
    option.split(' ').next().expect("a keyword")
}

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
fn an_option_given_twice_is_refused() {
    let server = Server::start();
    let mut c = server.connection();
    three_keys(&mut c);
    for (command, options) in OPTIONS {
        for option in options {
            let twice = words(&format!("a {option} {option}"));
            refused_everywhere(&mut c, command, &twice, keyword(option));
            let other_case = words(&format!("a {option} {}", option.to_lowercase()));
            refused_everywhere(&mut c, command, &other_case, keyword(option));
        }
    }
}

#[test]
fn options_that_exclude_each_other_are_refused_together() {
    let server = Server::start();
    let mut c = server.connection();
    three_keys(&mut c);
    for (command, options, word) in [
        ("LOCK.ACQUIRE", "a PX 1000 EX 1", "PX"),
        ("LOCK.ACQUIRE", "a EX 1 BLOCK 0 PX 1000", "EX"),
        ("LOCK.RENEW", "a PX 1000 EX 1", "PX"),
        ("LOCK.RENEW", "a EX 1 PX 1000", "EX"),
        ("LOCK.RELEASE", "a ALL HOLDS 0", "ALL"),
        ("LOCK.RELEASE", "a HOLDS 0 ALL", "HOLDS"),
    ] {
        refused_everywhere(&mut c, command, &words(options), word);
    }
}

#[test]
fn an_option_without_its_value_is_refused() {
    let server = Server::start();
    let mut c = server.connection();
    three_keys(&mut c);
    for (command, options) in OPTIONS {
        for option in options.iter().filter(|option| option.contains(' ')) {
            let keyword = keyword(option);
            refused_everywhere(&mut c, command, &words(&format!("a {keyword}")), keyword);
            let doubled = words(&format!("a {keyword} {option}"));
            refused_everywhere(&mut c, command, &doubled, keyword);
        }
    }
}

#[test]
fn unknown_options_are_refused_and_named() {
    let server = Server::start();
    let mut c = server.connection();
    three_keys(&mut c);
    for (command, foreign) in [
        ("LOCK.ACQUIRE", ["NX", "ALL", "RAISE", "PXAT", "5"]),
        ("LOCK.RELEASE", ["NX", "PX", "RAISE", "BLOCK", "5"]),
        ("LOCK.RENEW", ["NX", "ALL", "HOLDS", "BLOCK", "5"]),
    ] {
        for option in foreign {
            refused_everywhere(&mut c, command, &words(&format!("a {option}")), option);
            refused_everywhere(&mut c, command, &words(&format!("a {option} 1")), option);
        }
    }
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
        for (command, _) in OPTIONS {
            for option in options {
                let arguments = [b"a".to_vec(), option.to_vec(), b"1".to_vec()];
                refused_everywhere(&mut c, command, &arguments, "unknown option");
            }
        }
    }
}

#[test]
fn keywords_are_taken_in_any_case_and_any_order() {
    let server = Server::start();
    let mut c = server.connection();
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
    assert_eq!(
        run(&mut c, &format!("lock.Release k a tOkEn {token} aLl")).int(),
        0
    );
}
