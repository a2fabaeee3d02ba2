//! The limit of one's own grant: kept, narrowed or widened by a re-entry and a renewal.

use crate::holders::{enter, holder, holders, shared};
use redis::Connection;
use testbed::{Expect, Reply, Talk, cmd, line, owners, queue, run, started, wait};

/// Makes a call that leaves `k` as it was, not a byte less or more, and no replica told of it.
#[track_caller]
fn unchanged(c: &mut Connection, words: &str) -> Reply {
    let state = |c: &mut Connection| (cmd!(*c, "DUMP", "k").value(), run(c, "PEXPIRETIME k").int());
    let before = state(c);
    let reply = run(c, words);
    assert_eq!(state(c), before, "changed by {words}");
    reply
}

#[test]
fn the_only_reader_becomes_the_writer_by_a_plain_acquire() {
    let (_server, mut c, [before]) = shared(["a"], "SHARED");
    let plain = run(&mut c, "LOCK.ACQUIRE other a PX 600000").grant();
    let writer = enter(&mut c, "a");
    assert_eq!(
        (writer.token, writer.holds, writer.limit),
        (before.token, 2, None)
    );
    run(&mut c, "LOCK.ACQUIRE k b SHARED").nil();
    // From then on it is stored as any lock of one holder.
    run(&mut c, "LOCK.RELEASE k a").int();
    let stored = |c: &mut Connection, key| cmd!(*c, "DUMP", key).bytes().len();
    assert_eq!(stored(&mut c, "k"), stored(&mut c, "other"));
    assert_eq!(plain.holds, holder(&mut c, "a").holds);
    run(&mut c, "PERSIST k").int();
    assert_eq!(holders(&mut c)[0].ttl_ms, -1, "its TTL is its lease");
}

#[test]
fn two_that_share_and_want_it_alone_are_told_so_at_once() {
    let (_server, mut c, _) = shared(["a", "b"], "SHARED");
    for words in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a LIMIT 1",
        "LOCK.ACQUIRE k b BLOCK 0",
        "LOCK.ACQUIRE k b LIMIT 1 HOLDS 1",
        "LOCK.ACQUIRE k b HOLDS 2 BLOCK 0",
        "LOCK.RENEW k a LIMIT 1",
        "LOCK.RENEW k a LIMIT 1 PX 5",
    ] {
        unchanged(&mut c, words).refused("NOTALONE");
    }
    assert_eq!(queue(&mut c), [""; 0]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    enter(&mut c, "b");
    assert_eq!(holder(&mut c, "b").limit, 1);
}

/// The share of `b` ends while the line stands still, and a renewal is the next command.
#[test]
fn a_renewal_is_judged_after_those_who_have_room_since_a_lease_ended() {
    let (server, mut c, _) = shared(["a"], "LIMIT 2");
    run(&mut c, "LOCK.ACQUIRE k b LIMIT 2 PX 300").grant();
    let mut next = wait(&server, "k d LIMIT 2 PX 600000 BLOCK 0");
    server.signal("STOP");
    c.post(&line("LOCK.RENEW k a LIMIT 1"));
    std::thread::sleep(std::time::Duration::from_millis(350));
    server.signal("CONT");
    c.receive().refused("NOTALONE");
    next.granted();
    assert_eq!(owners(&mut c), ["a", "d"]);
}

#[test]
fn a_waiting_call_of_an_owner_that_comes_to_share_is_told_too() {
    let (server, mut c) = started();
    enter(&mut c, "a");
    let mut reader = wait(&server, "k d SHARED PX 600000 BLOCK 0");
    let mut shares = wait(&server, "k b SHARED PX 600000 BLOCK 0");
    let mut alone = wait(&server, "k b PX 600000 BLOCK 0");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    reader.granted();
    shares.granted();
    alone.receive().refused("NOTALONE");
    assert_eq!(owners(&mut c), ["d", "b"]);
    assert_eq!(holder(&mut c, "b").limit, 0);
}
