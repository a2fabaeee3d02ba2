//! The log names the field for which a stored value is refused.

use crate::damage::{Saved, reasons};
use crate::*;
use std::ops::Range;
use testbed::dump;

/// A field of a module's value in an RDB file: a number.
fn number(number: u64) -> Vec<u8> {
    let mut field = vec![2, 0x81];
    field.extend(number.to_be_bytes());
    field
}

/// The same of a string.
fn text(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).expect("short");
    let mut field = vec![5, 0x80];
    field.extend(length.to_be_bytes());
    field.extend(bytes);
    field
}

/// The length of a module's id, and where it ends in a payload: behind the mark of its values.
const ID: usize = 9;
const ID_END: usize = 1 + ID;
const END: [u8; 1] = [0];

fn missing(field: &str) -> String {
    format!("{field} missing, truncated or of the wrong type")
}

/// The fields of a lock that is taken: token, hold count, lease, owner.
fn sound() -> [Vec<u8>; 4] {
    [number(5), number(1), number(1000), text(b"o")]
}

/// What stands before shares: a token that is none, the form, and how many there are.
fn shares_head(form: u64, count: u64) -> Vec<u8> {
    [number(0), number(form), number(count)].concat()
}

/// A share: limit, end, token, hold count, lease, owner.
fn share(limit: u64, end: u64, token: u64, owner: &[u8]) -> Vec<u8> {
    let numbers = [limit, end, token, 1, 1000].map(number).concat();
    [numbers, text(owner)].concat()
}

/// Shares that are refused, and why.
fn refused_shares() -> Vec<(Vec<u8>, String)> {
    const END: u64 = 4_000_000_000_000;
    let two = |limit, end, token, owner: &[u8]| {
        [
            shares_head(1, 2),
            share(0, END, 5, b"a"),
            share(limit, end, token, owner),
        ]
        .concat()
    };
    let order = "token 5, which is not higher than the one before it".to_owned();
    let head = shares_head;
    vec![
        (number(0), missing("format of the holders")),
        (
            head(2, 1),
            "holders in format 2 (this version of the module reads only format 1)".to_owned(),
        ),
        (head(1, 1)[..20].to_vec(), missing("number of holders")),
        (
            head(1, 0),
            "a shared lock with no holder, or with one exclusive holder".to_owned(),
        ),
        (
            [head(1, 1), share(1, END, 5, b"a")].concat(),
            "a shared lock with no holder, or with one exclusive holder".to_owned(),
        ),
        (head(1, 1), missing("limit")),
        ([head(1, 1), number(0)].concat(), missing("end of a lease")),
        (
            two(1 << 31, END, 6, b"b"),
            "limit 2147483648 (0 to 2147483647)".to_owned(),
        ),
        (
            two(0, 1 << 63, 6, b"b"),
            "end of a lease 9223372036854775808 (0 to 9223372036854775807)".to_owned(),
        ),
        (two(0, END, 5, b"b"), order.clone()),
        (
            two(0, END, 6, b"a"),
            "an owner that holds the lock already".to_owned(),
        ),
        (
            two(1, END, 6, b"b"),
            "more holders than a limit of 1 allows".to_owned(),
        ),
        (
            [
                head(1, 3),
                share(2, END, 5, b"a"),
                share(0, END, 6, b"b"),
                share(3, END, 7, b"d"),
            ]
            .concat(),
            "more holders than a limit of 2 allows".to_owned(),
        ),
    ]
}

/// The fields of locks that are refused, and why.
fn refused() -> Vec<(Vec<u8>, String)> {
    let but = |index: usize, field: Vec<u8>| {
        let mut fields = sound();
        fields[index] = field;
        fields.concat()
    };
    let cut = |count: usize| sound()[..count].concat();
    let no_token = |token: u64| format!("token {token} (1 to 9007199254740991)");
    let no_holds = |holds: u64| format!("hold count {holds} (1 to 2147483647)");
    let no_lease = |lease: u64| format!("lease {lease} (1 to 315360000000)");
    let no_owner = |length: usize| format!("owner of {length} bytes (1 to 256)");
    let cases = [
        (but(0, number(1 << 53)), no_token(1 << 53)),
        (but(0, text(b"5")), missing("token")),
        (cut(0), missing("token")),
        (but(1, number(0)), no_holds(0)),
        (but(1, number((1 << 32) + 1)), no_holds((1 << 32) + 1)),
        (cut(1), missing("hold count")),
        (but(2, number(0)), no_lease(0)),
        (but(2, number(u64::MAX)), no_lease(u64::MAX)),
        (cut(2), missing("lease")),
        (but(3, text(b"")), no_owner(0)),
        (but(3, text(&[b'o'; 257])), no_owner(257)),
        (but(3, number(1)), missing("owner")),
        (cut(3), missing("owner")),
    ];
    let why = |reason| format!("a stored lock is refused: {reason}");
    let cases = cases.into_iter().chain(refused_shares());
    cases
        .map(|(fields, reason)| (fields, why(reason)))
        .collect()
}

#[test]
fn of_a_payload_that_is_restored() {
    let (server, mut c) = Server::builder().config("loglevel", "verbose").started();
    cmd!(c, "LOCK.ACQUIRE", "k", "o").grant();
    let (value, version) = dump::split(&cmd!(c, "DUMP", "k").bytes());
    let start = &value[..ID_END];

    let payload = dump::reseal(&[start, &sound().concat(), &END].concat(), version);
    cmd!(c, "RESTORE", "sound", 0, payload).okay();
    assert_eq!(cmd!(c, "LOCK.INFO", "sound").lock_info().token, 5);

    let mut expected = Vec::new();
    for (fields, reason) in refused() {
        let payload = dump::reseal(&[start, &fields[..], &END].concat(), version);
        cmd!(c, "RESTORE", "r", 0, payload).refused("ERR");
        expected.push(reason);
    }
    assert_eq!(reasons(&server.log(), '-'), expected);
    assert_eq!(reasons(&server.log(), '#'), [""; 0]);

    // As it ships, a server's log cannot be filled by bad payloads.
    let server = Server::start();
    let (fields, _) = &refused()[0];
    let payload = dump::reseal(&[start, fields, &END].concat(), version);
    cmd!(server.connection(), "RESTORE", "r", 0, payload).refused("ERR");
    assert!(!server.log().contains("is refused"), "{}", server.log());
}

#[test]
fn the_tokens_of_a_refused_payload_are_not_seen() {
    let (_server, mut c) = started();
    cmd!(c, "LOCK.ACQUIRE", "k", "o").grant();
    let (value, version) = dump::split(&cmd!(c, "DUMP", "k").bytes());
    let first = share(0, 4_000_000_000_000, (1 << 53) - 1, b"a"); // the second is missing
    let fields = [&value[..ID_END], &shares_head(1, 2), &first, &END].concat();
    cmd!(c, "RESTORE", "r", 0, dump::reseal(&fields, version)).refused("ERR");
    cmd!(c, "LOCK.ACQUIRE", "free", "o").grant();
}

#[test]
fn of_a_lock_in_a_file() {
    let mut saved = Saved::new();
    let Range { start, end } = saved.value;
    let whole = saved.whole.clone();
    for (fields, reason) in refused() {
        let (before, after) = (&whole[..start + ID], &whole[end..]);
        let file = [before, &fields[..], &END, after].concat();
        let log = saved.load(&file, &reason).expect_err("a refusal");
        assert_eq!(reasons(&log, '#'), [reason]);
    }
}

#[test]
fn of_the_token_clock_in_a_file() {
    let mut saved = Saved::new();
    let whole = saved.whole.clone();
    let id = &whole[saved.value.start..][..ID];
    // The first of the module's records: its id, the number that says when it is read, the clock.
    let found = whole.windows(ID).position(|bytes| bytes == id);
    let clock = found.expect("a record") + ID + 2;
    assert!(clock < saved.value.start);
    let length = number(0).len();
    assert_eq!(whole[clock..][..2], number(0)[..2], "a number is there");
    for (field, reason) in [
        (
            number(1 << 53),
            "token 9007199254740992 (0 to 9007199254740991)".to_owned(),
        ),
        (text(b"5"), missing("token")),
    ] {
        let (before, after) = (&whole[..clock], &whole[clock + length..]);
        let file = [before, &field, after].concat();
        let log = saved.load(&file, &reason).expect_err("a refusal");
        let expected = format!("the stored token clock is refused: {reason}");
        assert_eq!(reasons(&log, '#'), [expected]);
    }
}
