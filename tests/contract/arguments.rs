//! Arity, key and owner, and what an `ERR` says; the options are in `options`.

use crate::support::{run, unchanged};
use redis::Connection;
use testbed::{Expect, cmd, started, words};

/// Three keys for a call to be tried on: `held` by the owner a, `free`, and `text` of another type.
#[track_caller]
pub(crate) fn three_keys(c: &mut Connection) {
    run(c, "LOCK.ACQUIRE held a PX 600000").grant();
    run(c, "SET text value").okay();
}

/// Demands that `command key arguments…` is an `ERR` on all of [`three_keys`], whatever they hold,
/// that it changes none of them, and that its text holds `word`.
#[track_caller]
pub(crate) fn refused_everywhere(
    c: &mut Connection,
    command: &str,
    arguments: &[Vec<u8>],
    word: &str,
) {
    for key in ["held", "free", "text"] {
        let reply = unchanged(c, key, |c| cmd!(*c, command, key, arguments.to_vec()));
        let Err(refusal) = &reply else {
            panic!("{command} {key} {arguments:?} replied {reply:?}");
        };
        let text = refusal.text();
        let what = format!("{command} {key} {arguments:?}: {text}");
        assert_eq!(refusal.code(), "ERR", "{what}");
        assert!(text.contains(word), "no {word:?} in {text:?}");
    }
}

const WITH_OWNER: [&str; 3] = ["LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.RENEW"];

#[test]
fn too_few_arguments_are_the_servers_own_error() {
    let (_server, mut c) = started();
    for line in [
        "LOCK.ACQUIRE",
        "LOCK.ACQUIRE k",
        "LOCK.RELEASE",
        "LOCK.RELEASE k",
        "LOCK.RENEW",
        "LOCK.RENEW k",
        "LOCK.FENCE",
        "LOCK.INFO",
        "LOCK._APPLY k",
        "LOCK._CLOCK",
    ] {
        let error = run(&mut c, line).refused("ERR");
        let says_so = error.contains("wrong number of arguments");
        assert!(says_so, "{line}: {error}");
    }
}

#[test]
fn too_many_arguments_are_refused_where_there_are_no_options() {
    let (_server, mut c) = started();
    three_keys(&mut c);
    let token = run(&mut c, "LOCK.FENCE held").int();
    for (command, arguments) in [
        ("LOCK.INFO", "a".to_owned()),
        ("LOCK.FENCE", format!("{token} {token}")),
        ("LOCK.FENCE", format!("{token} a b c")),
    ] {
        let words = words(&arguments);
        refused_everywhere(&mut c, command, &words, "wrong number of arguments");
    }
}

#[test]
fn an_owner_is_1_to_256_bytes() {
    let (_server, mut c) = started();
    three_keys(&mut c);
    for command in WITH_OWNER {
        for owner in [vec![], vec![b'a'; 257], vec![b'a'; 100_000]] {
            refused_everywhere(&mut c, command, &[owner], "256");
        }
    }
    for length in [1, 2, 255, 256] {
        let owner = vec![b'o'; length];
        let grant = cmd!(c, "LOCK.ACQUIRE", "k", owner).grant();
        assert_eq!(grant.owner, owner);
        cmd!(c, "LOCK.RENEW", "k", owner).grant();
        assert_eq!(cmd!(c, "LOCK.RELEASE", "k", owner).int(), 0);
    }
}

#[test]
fn thousands_of_arguments_are_refused_like_two() {
    let (_server, mut c) = started();
    three_keys(&mut c);
    for command in WITH_OWNER {
        let mut arguments = words("a");
        for _ in 0..20_000 {
            arguments.extend(words("TOKEN 5"));
        }
        refused_everywhere(&mut c, command, &arguments, "TOKEN");
    }
}
