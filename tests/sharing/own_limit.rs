//! The limit of one's own grant: kept, narrowed or widened by a re-entry and a renewal.

use crate::holders::{enter, holder, holders, owners, shared};
use crate::support::{at_once, line, queue, run, wait};
use redis::Connection;
use testbed::{Expect, Reply, Server, Talk, cmd};

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
fn with_an_equal_or_wider_limit_the_grant_keeps_its_own() {
    let (_server, mut c, _) = shared(["a", "b"], "LIMIT 3");
    for words in [
        "LIMIT 3",
        "LIMIT 4",
        "LIMIT 2147483647",
        "SHARED",
        "LIMIT 0",
    ] {
        assert_eq!(
            enter(&mut c, &format!("a {words} HOLDS 1")).limit,
            Some(3),
            "{words}"
        );
    }
    let (_server, mut c, _) = shared(["a"], "");
    for words in ["SHARED", "LIMIT 9", "LIMIT 1"] {
        assert_eq!(
            enter(&mut c, &format!("a {words}")).limit,
            Some(1),
            "{words}"
        );
    }
    run(&mut c, "LOCK.ACQUIRE k b SHARED").nil();
    assert_eq!(holder(&mut c, "a").limit, 1);
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

#[test]
fn a_limit_is_narrowed_as_far_as_the_present_holders_allow() {
    let (_server, mut c, _) = shared(["a", "b"], "SHARED");
    assert_eq!(enter(&mut c, "a LIMIT 5").limit, Some(5));
    assert_eq!(enter(&mut c, "a LIMIT 2").limit, Some(2));
    unchanged(&mut c, "LOCK.ACQUIRE k a LIMIT 1").refused("NOTALONE");
    run(&mut c, "LOCK.ACQUIRE k d SHARED").nil();
    assert_eq!(run(&mut c, "LOCK.RENEW k b LIMIT 7").grant().limit, Some(7));
    let limits: Vec<_> = holders(&mut c).iter().map(|holder| holder.limit).collect();
    assert_eq!(limits, [2, 7]);
    // With several holds too: by a narrowing nobody is let in.
    assert_eq!(holder(&mut c, "a").holds, 3);
    run(&mut c, "LOCK.RELEASE k b").int();
    assert_eq!(run(&mut c, "LOCK.RENEW k a LIMIT 1").grant().holds, 3);
}

#[test]
fn a_repeated_call_bears_no_more_holders_than_it_asks_for() {
    let (_server, mut c, _) = shared(["a"], "SHARED");
    let first = enter(&mut c, "a LIMIT 1 HOLDS 2");
    let again = enter(&mut c, "a LIMIT 1 HOLDS 2");
    assert_eq!((first.holds, first.limit), (2, Some(1)));
    assert_eq!(again, first);
    // A call that was made by a reader, and is repeated beside another reader.
    let (_server, mut c, _) = shared(["a", "b"], "SHARED");
    unchanged(&mut c, "LOCK.ACQUIRE k a LIMIT 1 HOLDS 1").refused("NOTALONE");
}

#[test]
fn a_release_never_widens() {
    let (_server, mut c, _) = shared(["a"], "SHARED");
    enter(&mut c, "a LIMIT 2");
    enter(&mut c, "a");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a HOLDS 1").int(), 1);
    assert_eq!(holder(&mut c, "a").limit, 1);
    run(&mut c, "LOCK.ACQUIRE k b SHARED").nil();
}

#[test]
fn a_wider_limit_needs_a_hold_count_of_one() {
    let (server, mut c, _) = shared(["a"], "");
    enter(&mut c, "a");
    let _reader = wait(&server, "k b SHARED BLOCK 0");
    for words in ["SHARED", "LIMIT 0", "LIMIT 2", "LIMIT 2147483647 PX 5"] {
        let text = unchanged(&mut c, &format!("LOCK.RENEW k a {words}")).refused("ERR");
        assert!(text.contains("hold"), "{text}");
    }
    assert_eq!(run(&mut c, "LOCK.RENEW k a LIMIT 1").grant().holds, 2);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 1);
    assert_eq!(run(&mut c, "LOCK.RENEW k a LIMIT 2").grant().limit, Some(2));
    // The same of a share.
    let (_server, mut c, _) = shared(["a"], "LIMIT 2");
    enter(&mut c, "a LIMIT 2");
    unchanged(&mut c, "LOCK.RENEW k a LIMIT 3").refused("ERR");
    assert_eq!(run(&mut c, "LOCK.RENEW k a LIMIT 2").grant().limit, Some(2));
}

#[test]
fn a_renewal_without_a_limit_keeps_it_and_a_token_is_kept_by_all() {
    let (_server, mut c, [a]) = shared(["a"], "LIMIT 4");
    for (words, limit) in [
        ("", 4),
        (" SHARED", 0),
        ("", 0),
        (" LIMIT 2", 2),
        (" LIMIT 1", 1),
        ("", 1),
        (" LIMIT 3", 3),
    ] {
        let renewed = run(&mut c, &format!("LOCK.RENEW k a{words} PX 600000")).grant();
        assert_eq!(renewed.token, a.token);
        assert_eq!(holder(&mut c, "a").limit, limit, "after {words:?}");
    }
}

#[test]
fn a_call_is_judged_after_those_at_the_front_who_have_room() {
    for call in [
        "LOCK.RENEW k a LIMIT 1",
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a LIMIT 1 BLOCK 0",
    ] {
        let server = Server::builder().config("lock.max-holders", "1").start();
        let mut c = server.connection();
        enter(&mut c, "a SHARED");
        let mut reader = wait(&server, "k b SHARED PX 600000 BLOCK 0");
        // In one transaction, so that no tick comes between.
        let lines = ["MULTI", "CONFIG SET lock.max-holders 2", call, "EXEC"];
        let exec = at_once(&mut c, &lines).pop().expect("EXEC").items();
        exec[1].clone().refused("NOTALONE");
        reader.granted();
        assert_eq!(owners(&mut c), ["a", "b"], "{call}");
    }
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
    let server = Server::start();
    let mut c = server.connection();
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

#[test]
fn a_waiting_call_of_an_owner_that_has_come_to_be_alone_makes_it_the_writer() {
    let server = Server::start();
    let mut c = server.connection();
    enter(&mut c, "a");
    let mut shares = wait(&server, "k b SHARED PX 600000 BLOCK 0");
    let _reader = wait(&server, "k d SHARED PX 600000 BLOCK 0");
    let mut alone = wait(&server, "k b PX 600000 BLOCK 0");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(shares.granted().limit, Some(0));
    assert_eq!(alone.granted().holds, 2);
    assert_eq!(
        (owners(&mut c), queue(&mut c)),
        (vec!["b".to_owned()], vec!["d".to_owned()])
    );
    assert_eq!(holder(&mut c, "b").limit, 1);
}

#[test]
fn only_a_grant_of_limit_1_can_be_raised_and_by_no_call_with_a_limit() {
    let (_server, mut c, [a, _]) = shared(["a", "b"], "SHARED");
    let raise = |c: &mut Connection, words: &str, token: i64, to: i64| {
        let mut command = line(words);
        c.send(command.arg("TOKEN").arg(token).arg("RAISE").arg(to))
    };
    let state = holders(&mut c);
    raise(&mut c, "LOCK.RENEW k a", a.token, a.token + 1).refused("ERR");
    raise(&mut c, "LOCK.RENEW k a", a.token, a.token).refused("ERR");
    // The errors that come first.
    raise(&mut c, "LOCK.RENEW k a", a.token + 9, a.token + 10).refused("FENCED");
    raise(&mut c, "LOCK.RENEW k a", a.token, (1 << 53) - 1).refused("AHEAD");
    for how in ["SHARED", "LIMIT 1", "LIMIT 2"] {
        raise(
            &mut c,
            &format!("LOCK.RENEW k a {how}"),
            a.token,
            a.token + 1,
        )
        .refused("ERR");
        raise(&mut c, &format!("LOCK.RENEW free a {how}"), 5, 6).refused("ERR");
    }
    let tokens = |holders: &[crate::holders::Holder]| {
        holders
            .iter()
            .map(|holder| holder.token)
            .collect::<Vec<_>>()
    };
    assert_eq!(tokens(&holders(&mut c)), tokens(&state));
    run(&mut c, "LOCK.RELEASE k b").int();
    raise(&mut c, "LOCK.RENEW k a", a.token, a.token + 1).refused("ERR");
    run(&mut c, "LOCK.RENEW k a LIMIT 1").grant();
    let raised = raise(&mut c, "LOCK.RENEW k a", a.token, a.token + 1).grant();
    assert_eq!(raised.token, a.token + 1);
}
