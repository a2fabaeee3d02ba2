//! The counters of waiting.

use crate::support::moves;
use testbed::{Expect, Talk, at_once, held, run, unblocks, wait};

#[test]
fn a_wait_that_begins_counts_nothing() {
    let (server, mut c) = held();
    let _waiter = moves(&mut c, &[], "a wait", |_| wait(&server, "k b BLOCK 0"));
}

#[test]
fn a_release_hands_the_lock_on() {
    let (server, mut c) = held();
    let mut waiter = wait(&server, "k b BLOCK 0");
    let counters = &["releases", "grants", "hand_offs"];
    moves(&mut c, counters, "a release", |c| {
        run(c, "LOCK.RELEASE k a").int();
        waiter.receive().grant();
    });
}

#[test]
fn the_calls_of_one_owner_are_one_grant_and_re_entries() {
    let (server, mut c) = held();
    let mut waiters = [(); 3].map(|()| wait(&server, "k b BLOCK 0"));
    let counters = &["releases", "grants", "hand_offs", "reentries", "reentries"];
    moves(&mut c, counters, "a release", |c| {
        run(c, "LOCK.RELEASE k a").int();
        for waiter in &mut waiters {
            waiter.receive().grant();
        }
    });
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
