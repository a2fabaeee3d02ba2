//! Who may call `LOCK._APPLY` and `LOCK._CLOCK`: the replication stream, files that are loaded, and
//! a user who may also `RESTORE`.

use crate::support::{last_token, now_us, run, unchanged, user};
use testbed::{Expect, Server, cmd, effect, eventually, started};

const APPLY: &str = "LOCK._APPLY k a 5 1 60000 -1";
const CLOCK: &str = "LOCK._CLOCK 5";
const FROM_SCRIPT: [(&str, &str); 2] = [
    ("return redis.call('LOCK._APPLY', KEYS[1], ARGV[1])", "k"),
    ("return redis.call('LOCK._CLOCK', '5')", "k"),
];

#[test]
fn a_user_who_may_not_restore_is_refused_although_all_else_is_allowed() {
    let (server, mut admin) = started();
    let mut c = user(&server, &["~*", "&*", "+@all", "-restore"]);
    for line in [APPLY, CLOCK, "LOCK._APPLY k bad", "LOCK._CLOCK bad"] {
        unchanged(&mut admin, "k", |_| run(&mut c, line)).refused("NOPERM");
    }
    run(&mut c, "LOCK.ACQUIRE k a").grant();
}

#[test]
fn a_user_who_may_restore_is_taken() {
    let (server, mut admin) = started();
    run(&mut admin, APPLY).okay();
    run(&mut admin, CLOCK).okay();
    for rules in [
        &["~*", "+@all"][..],
        &["~*", "+lock._apply", "+lock._clock", "+restore"],
    ] {
        run(&mut admin, "FLUSHALL").okay();
        let mut c = user(&server, rules);
        run(&mut c, APPLY).okay();
        run(&mut c, CLOCK).okay();
        assert_eq!(run(&mut admin, "LOCK.INFO k").lock_info().token, 5);
    }
}

#[test]
fn the_right_to_restore_alone_does_not_grant_the_commands() {
    let server = Server::start();
    let mut c = user(&server, &["~*", "+restore"]);
    run(&mut c, APPLY).refused("NOPERM");
    run(&mut c, CLOCK).refused("NOPERM");
}

#[test]
fn a_key_that_the_user_may_not_write_is_refused() {
    let server = Server::start();
    for rules in [&["~other", "+@all"][..], &["%R~k", "+@all"]] {
        let mut c = user(&server, rules);
        run(&mut c, APPLY).refused("NOPERM");
    }
    let mut c = user(&server, &["~k", "+@all"]);
    run(&mut c, APPLY).okay();
}

#[test]
fn a_script_is_taken_or_refused_as_its_caller() {
    let (server, mut admin) = started();
    let effect = effect("a", 5, 1, 60_000, -1);
    for (script, key) in FROM_SCRIPT {
        let mut c = user(&server, &["~*", "+@all", "-restore"]);
        unchanged(&mut admin, key, |_| cmd!(c, "EVAL", script, 1, key, effect)).refused("NOPERM");
        let mut c = user(&server, &["~*", "+@all"]);
        cmd!(c, "EVAL", script, 1, key, effect).okay();
        run(&mut admin, "FLUSHALL").okay();
    }
}

#[test]
fn a_transaction_is_taken_or_refused_as_its_caller() {
    let server = Server::start();
    for (restore, allowed) in [("-restore", false), ("+restore", true)] {
        let mut c = user(&server, &["~*", "+@all", restore]);
        run(&mut c, "MULTI").okay();
        for line in [APPLY, CLOCK] {
            assert_eq!(run(&mut c, line).text(), "QUEUED");
        }
        for result in run(&mut c, "EXEC").items() {
            if allowed {
                result.okay();
            } else {
                result.refused("NOPERM");
            }
        }
    }
}

#[test]
fn the_question_for_the_right_leaves_no_trace() {
    let (server, mut c) = started();
    run(&mut c, "SET k text").okay();
    run(&mut c, "CONFIG RESETSTAT").okay();
    run(&mut c, APPLY).okay();
    run(&mut c, CLOCK).okay();
    assert!(server.info("errorstats").is_empty());
    assert_eq!(run(&mut c, "DBSIZE").int(), 1);
}

#[test]
fn replication_needs_no_right() {
    let primary = Server::start();
    let replica = primary.replica();
    let mut c = replica.connection();
    cmd!(c, "ACL", "SETUSER", "default", "-restore").okay();
    let mut there = primary.connection();
    let ahead = now_us() + 3_600_000_000;
    cmd!(there, "LOCK._CLOCK", ahead).okay();
    let token = run(&mut there, "LOCK.ACQUIRE k a").grant().token;
    assert_eq!(token, ahead + 1);
    eventually(|| last_token(&mut c) == token, "the effect to arrive");
    assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().token, token);
}
