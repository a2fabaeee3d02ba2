//! Each counter of `INFO lock` moves with what it counts, and with nothing else.

use crate::support::{COUNTERS, GAUGES, moves, section};
use std::collections::BTreeSet;
use testbed::{Expect, all_granted, at_once, cmd, held, run, started, unblocks, wait};

#[test]
fn the_section_has_these_fields_and_no_others() {
    let (_server, mut c) = started();
    let fields = section(&mut c);
    let names: BTreeSet<_> = fields.keys().map(String::as_str).collect();
    assert_eq!(names, COUNTERS.into_iter().chain(GAUGES).collect());
    for (name, value) in fields {
        assert_eq!(value == 0, name != "max_waiting", "{name}: {value}");
    }
}

/// One after the other on one server: a call, and the counters that it moves.
const CALLS: &[(&str, &[&str])] = &[
    ("SET text value", &[]),
    ("LOCK.ACQUIRE k a PX 600000", &["grants"]),
    ("LOCK.ACQUIRE k a", &["reentries"]),
    ("LOCK.ACQUIRE k a HOLDS 2", &["reentries"]),
    ("LOCK.ACQUIRE k b", &["refusals"]),
    ("LOCK.ACQUIRE k b HOLDS 2", &["refusals"]),
    ("LOCK.ACQUIRE k a HOLDS 4", &["refusals"]),
    ("LOCK.ACQUIRE k a TOKEN 1", &["refusals"]),
    ("LOCK.ACQUIRE free a HOLDS 2", &["refusals"]),
    ("LOCK.ACQUIRE k a PX 0", &[]),
    ("LOCK.ACQUIRE k", &[]),
    ("LOCK.ACQUIRE text a", &[]),
    ("LOCK.RENEW k a", &["renewals"]),
    ("LOCK.RENEW k a PX 500000", &["renewals"]),
    ("LOCK.RENEW k b", &["refusals"]),
    ("LOCK.RENEW k a TOKEN 1", &["refusals"]),
    ("LOCK.RENEW free a", &["refusals"]),
    ("LOCK.RENEW text a", &[]),
    ("LOCK.FENCE k", &[]),
    ("LOCK.FENCE k 1", &["fence_checks", "fenced_refusals"]),
    ("LOCK.FENCE free 1", &["fence_checks", "fenced_refusals"]),
    ("LOCK.FENCE text 1", &[]),
    ("LOCK.INFO k", &[]),
    ("LOCK.WAITERS k", &[]),
    ("LOCK.HOTKEYS", &[]),
    ("LOCK.RELEASE k b", &["refusals"]),
    ("LOCK.RELEASE k b ALL", &["refusals"]),
    ("LOCK.RELEASE k a TOKEN 1", &["refusals"]),
    ("LOCK.RELEASE free a", &["refusals"]),
    ("LOCK.RELEASE text a", &[]),
    ("LOCK.RELEASE k a HOLDS 5", &[]),
    ("LOCK.RELEASE k a", &["releases"]),
    ("LOCK.RELEASE k a", &["releases"]),
    ("LOCK._APPLY k a 5 1 60000 -1", &[]),
    ("LOCK._CLOCK 7", &[]),
    ("LOCK.RELEASE k a", &["releases"]),
    ("PEXPIRE k 5", &[]),
    ("CONFIG RESETSTAT", &[]),
];

#[test]
fn a_call_moves_its_counter_and_no_other() {
    let (_server, mut c) = started();
    for (line, counters) in CALLS {
        moves(&mut c, counters, line, |c| {
            let _ = run(c, line);
        });
    }
}

#[test]
fn tokens_that_fit_and_tokens_ahead_of_time() {
    let (_server, mut c) = started();
    let token = run(&mut c, "LOCK.ACQUIRE k a").grant().token;
    moves(&mut c, &["fence_checks"], "a check that succeeds", |c| {
        cmd!(*c, "LOCK.FENCE", "k", token).okay();
    });
    let ahead = token + 3_600_000_000;
    moves(&mut c, &["refusals"], "a raise too far", |c| {
        cmd!(*c, "LOCK.RENEW", "k", "a", "TOKEN", token, "RAISE", ahead).refused("AHEAD");
    });
    moves(&mut c, &["renewals"], "a raise", |c| {
        let raise = format!("LOCK.RENEW k a TOKEN {token} RAISE {}", token + 1);
        run(c, &raise).grant();
    });
}

#[test]
fn a_call_that_may_not_wait_is_refused_at_once() {
    let (_server, mut c) = started();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    moves(&mut c, &["refusals"], "a script", |c| {
        let call = "return redis.call('LOCK.ACQUIRE', 'k', 'b', 'BLOCK', 0)";
        cmd!(*c, "EVAL", call, 0).nil();
    });
}

#[test]
fn a_wait_that_begins_counts_nothing() {
    let (server, mut c) = held();
    let _waiter = moves(&mut c, &[], "a wait", |_| wait(&server, "k b BLOCK 0"));
}

/// The calls of one owner are one grant and re-entries.
#[test]
fn a_release_hands_the_lock_on() {
    for calls in [1, 3] {
        let (server, mut c) = held();
        let mut waiters: Vec<_> = (0..calls).map(|_| wait(&server, "k b BLOCK 0")).collect();
        let mut counters = vec!["releases", "grants", "hand_offs"];
        counters.resize(2 + calls, "reentries");
        let what = format!("a release to {calls}");
        moves(&mut c, &counters, &what, |c| {
            run(c, "LOCK.RELEASE k a").int();
            all_granted(&mut waiters);
        });
    }
}

#[test]
fn a_wait_ends_by_its_time() {
    let (server, mut c) = held();
    let mut waiter = server.connection();
    moves(&mut c, &["wait_timeouts"], "a wait", |_| {
        run(&mut waiter, "LOCK.ACQUIRE k b BLOCK 5").nil();
    });
}

#[test]
fn a_wait_is_given_up() {
    let (server, mut c) = held();
    for how in ["call off", "close", "CLIENT KILL ID", "CLIENT UNBLOCK"] {
        if how == "CLIENT UNBLOCK" && !unblocks() {
            continue;
        }
        let waiter = wait(&server, "k b BLOCK 0");
        moves(&mut c, &["waits_given_up"], how, |c| match how {
            "call off" => assert_eq!(run(c, "LOCK.RELEASE k b ALL").int(), 0),
            "close" => drop(waiter),
            command => {
                run(c, &format!("{command} {}", waiter.id)).value();
            }
        });
    }
}

#[test]
fn a_caller_that_is_gone_gives_its_grant_back() {
    let (server, mut c) = held();
    let gone = wait(&server, "k b BLOCK 0");
    let kill = format!("CLIENT KILL ID {}", gone.id);
    let counters = &["releases", "grants", "hand_offs", "releases"];
    moves(&mut c, counters, "a release to a client that dies", |c| {
        let replies = at_once(c, &["LOCK.RELEASE k a", &kill]);
        let replies: Vec<_> = replies.into_iter().map(Expect::int).collect();
        assert_eq!(replies, [0, 1]);
    });
}

#[test]
fn a_full_queue_rejects() {
    let (server, mut c) = held();
    run(&mut c, "CONFIG SET lock.max-waiters 1").okay();
    let _waiter = wait(&server, "k b BLOCK 0");
    moves(&mut c, &["max_waiters_rejections"], "one too many", |c| {
        run(c, "LOCK.ACQUIRE k c BLOCK 0").refused("MAXWAITERS");
    });
}
