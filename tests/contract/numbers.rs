//! The numbers that the commands take: what is one, and from where to where.

use crate::arguments::{refused_everywhere, three_keys};
use crate::support::{HIGHEST_TOKEN, run};
use testbed::{Expect, Server, cmd};

/// What no command takes for an integer, or for one that any option allows.
const NEVER: [&[u8]; 27] = [
    b"",
    b" ",
    b"x",
    b"1x",
    b" 1",
    b"1 ",
    b"+1",
    b"01",
    b"-0",
    b"-1",
    b"--1",
    b"1.0",
    b"1e3",
    b"0x10",
    b"1,000",
    b"nan",
    b"inf",
    b"PX",
    b"1\0",
    b"\x001",
    b"\xff",
    "\u{661}".as_bytes(),
    b"9223372036854775808",
    b"-9223372036854775808",
    b"-9223372036854775809",
    b"18446744073709551617",
    b"99999999999999999999999999999999999999999999",
];

/// A numeric argument: its command, what stands before it, what the error must name, and the
/// nearest numbers outside its range.
const NUMBERS: [(&str, &[&str], &str, &[&str]); 11] = [
    (
        "LOCK.ACQUIRE",
        &["a", "PX"],
        "PX",
        &["0", "315360000001", "9223372036854775807"],
    ),
    (
        "LOCK.ACQUIRE",
        &["a", "EX"],
        "EX",
        &["0", "315360001", "9223372036854775807"],
    ),
    (
        "LOCK.ACQUIRE",
        &["a", "BLOCK"],
        "BLOCK",
        &["315360000001", "9223372036854775807"],
    ),
    (
        "LOCK.ACQUIRE",
        &["a", "HOLDS"],
        "HOLDS",
        &["0", "2147483648", "4294967297"],
    ),
    (
        "LOCK.ACQUIRE",
        &["a", "TOKEN"],
        "TOKEN",
        &["0", "9007199254740992"],
    ),
    (
        "LOCK.RELEASE",
        &["a", "HOLDS"],
        "HOLDS",
        &["2147483648", "4294967296"],
    ),
    (
        "LOCK.RELEASE",
        &["a", "TOKEN"],
        "TOKEN",
        &["0", "9007199254740992"],
    ),
    (
        "LOCK.RENEW",
        &["a", "PX"],
        "PX",
        &["0", "315360000001", "9223372036854775807"],
    ),
    (
        "LOCK.RENEW",
        &["a", "EX"],
        "EX",
        &["0", "315360001", "18446744073709552"],
    ),
    (
        "LOCK.RENEW",
        &["a", "TOKEN", "1", "RAISE"],
        "RAISE",
        &["0", "9007199254740992"],
    ),
    (
        "LOCK.FENCE",
        &[],
        "token",
        &["0", "9007199254740992", "9223372036854775807"],
    ),
];

#[test]
fn what_is_no_integer_or_out_of_range_is_refused_and_named() {
    let server = Server::start();
    let mut c = server.connection();
    three_keys(&mut c);
    for (command, before, name, outside) in NUMBERS {
        let outside = outside.iter().map(|number| number.as_bytes());
        for number in NEVER.into_iter().chain(outside) {
            let mut arguments: Vec<_> =
                before.iter().map(|word| word.as_bytes().to_vec()).collect();
            arguments.push(number.to_vec());
            refused_everywhere(&mut c, command, &arguments, name);
        }
    }
}

#[test]
fn the_token_of_a_renewal_has_the_same_range() {
    let server = Server::start();
    let mut c = server.connection();
    three_keys(&mut c);
    for number in NEVER.into_iter().chain([&b"0"[..], b"9007199254740992"]) {
        for command in ["LOCK.RENEW", "LOCK.RELEASE", "LOCK.ACQUIRE"] {
            let arguments = [b"a".to_vec(), b"TOKEN".to_vec(), number.to_vec()];
            refused_everywhere(&mut c, command, &arguments, "TOKEN");
        }
    }
}

#[test]
fn the_ends_of_each_range_are_taken() {
    let server = Server::start();
    let mut c = server.connection();
    let longest = "315360000000";
    let token = run(
        &mut c,
        &format!("LOCK.ACQUIRE k a PX {longest} BLOCK {longest}"),
    )
    .grant()
    .token;
    let highest = HIGHEST_TOKEN;
    for (line, code) in [
        (
            "LOCK.ACQUIRE k a EX 315360000 HOLDS 1 BLOCK 0".to_owned(),
            None,
        ),
        ("LOCK.ACQUIRE k a PX 1".to_owned(), None),
        (
            "LOCK.ACQUIRE k a HOLDS 2147483647".to_owned(),
            Some("NOTHELD"),
        ),
        ("LOCK.ACQUIRE k a TOKEN 1".to_owned(), Some("FENCED")),
        (format!("LOCK.ACQUIRE k a TOKEN {highest}"), Some("FENCED")),
        ("LOCK.RELEASE k a HOLDS 2147483647".to_owned(), None),
        (format!("LOCK.RELEASE k a TOKEN {highest}"), Some("FENCED")),
        (format!("LOCK.RENEW k a PX {longest}"), None),
        ("LOCK.RENEW k a EX 315360000".to_owned(), None),
        (
            format!("LOCK.RENEW k a TOKEN {token} RAISE {highest}"),
            Some("AHEAD"),
        ),
        (format!("LOCK.FENCE k {highest}"), Some("FENCED")),
        ("LOCK.FENCE k 1".to_owned(), Some("FENCED")),
        ("LOCK.RELEASE k a HOLDS 0".to_owned(), None),
    ] {
        match code {
            None => drop(run(&mut c, &line).value()),
            Some(code) => drop(run(&mut c, &line).refused(code)),
        }
    }
}

#[test]
fn a_raise_stands_beside_the_token_that_it_raises_and_is_not_lower() {
    let server = Server::start();
    let mut c = server.connection();
    three_keys(&mut c);
    let token = run(&mut c, "LOCK.FENCE held").int();
    let lower = token - 1;
    for (options, word) in [
        (format!("a RAISE {token}"), "TOKEN"),
        ("a RAISE 1 PX 1000".to_owned(), "TOKEN"),
        (format!("a TOKEN {token} RAISE {lower}"), "RAISE"),
        (format!("a RAISE 1 TOKEN {token}"), "RAISE"),
        (format!("a TOKEN {HIGHEST_TOKEN} RAISE {lower}"), "RAISE"),
    ] {
        let arguments = crate::arguments::words(&options);
        refused_everywhere(&mut c, "LOCK.RENEW", &arguments, word);
    }
}

#[test]
fn a_hostile_number_is_judged_in_every_place_of_a_call() {
    let server = Server::start();
    let mut c = server.connection();
    three_keys(&mut c);
    for bad in [
        "PX -5",
        "HOLDS -9223372036854775808",
        "TOKEN -1",
        "BLOCK -1",
    ] {
        for line in [
            format!("LOCK.ACQUIRE held a EX 5 {bad}"),
            format!("LOCK.ACQUIRE held a {bad} NX"),
        ] {
            let arguments: Vec<_> = line.split(' ').skip(1).collect();
            cmd!(c, "LOCK.ACQUIRE", arguments).refused("ERR");
        }
    }
    assert_eq!(run(&mut c, "LOCK.INFO held").lock_info().holds, 1);
}
