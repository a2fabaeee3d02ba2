//! Whenever room may have come, those at the front who now have room are granted in order, until one has none: the first
//! at once, inside the LOCK command that made the room; where none did, within 10 ms.

use crate::holders::{enter, shared};
use std::time::Duration;
use testbed::{
    Copies, Expect, Server, Talk, all_granted, held_and_waited_for, owners, queue, run, started,
    transaction, wait, wait_to_share,
};

#[test]
fn a_waiting_writer_holds_back_the_readers_behind_it() {
    let (server, mut c, _) = shared(["a"], "SHARED");
    let mut writer = wait(&server, "k writer PX 600000 BLOCK 0");
    let mut readers = ["b", "d"].map(|owner| wait(&server, &format!("k {owner} SHARED BLOCK 0")));
    assert_eq!(queue(&mut c), ["writer", "b", "d"]);
    assert_eq!(owners(&mut c), ["a"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    writer.granted();
    held_and_waited_for(&mut c, &["writer"], &["b", "d"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k writer").int(), 0);
    all_granted(&mut readers);
    assert_eq!(owners(&mut c), ["b", "d"]);
}

#[test]
fn a_lock_that_is_free_with_calls_in_line_goes_to_those_at_the_front_first() {
    let (server, mut c) = started();
    enter(&mut c, "a");
    let mut front = wait_to_share(&server, ["b", "d"]);
    // In one transaction, so that no tick comes between.
    let lines = ["DEL k", "LOCK.ACQUIRE k e SHARED", "LOCK.ACQUIRE k f"];
    let exec = transaction(&mut c, &lines);
    assert_eq!(exec[1].clone().grant().limit, Some(0));
    exec[2].clone().nil();
    all_granted(&mut front);
    assert_eq!(owners(&mut c), ["b", "d", "e"]);
}

/// `a` and `b` have permits, two of two, and `d` is in line for one: it has it when the next command of the same
/// transaction looks.
#[test]
fn by_a_release() {
    let (server, mut c, _) = shared(["a", "b"], "LIMIT 2");
    let mut next = wait(&server, "k d LIMIT 2 PX 600000 BLOCK 0");
    let _behind = wait(&server, "k e LIMIT 2 PX 600000 BLOCK 0");
    let lines = ["LOCK.RELEASE k a", "LOCK.INFO k", "LOCK.WAITERS k"];
    let exec = transaction(&mut c, &lines);
    exec[0].clone().value();
    assert_eq!(exec[1].clone().lock_info().holders, 2);
    assert_eq!(exec[2].clone().items().len(), 1);
    next.granted();
    assert_eq!(queue(&mut c), ["e"]);
}

#[test]
fn by_a_renewal_with_a_wider_limit() {
    let (server, mut c) = started();
    let writer = enter(&mut c, "writer");
    let mut readers = wait_to_share(&server, ["b", "d"]);
    let _next = wait(&server, "k e BLOCK 0");
    let exec = transaction(&mut c, &["LOCK.RENEW k writer SHARED", "LOCK.INFO k"]);
    let reader = exec[0].clone().grant();
    assert_eq!((reader.token, reader.limit), (writer.token, Some(0)));
    assert!(exec[1].clone().lock_info().holders >= 2);
    all_granted(&mut readers);
    held_and_waited_for(&mut c, &["writer", "b", "d"], &["e"]);
}

/// Several tries: at least one is as quick as the contract says, however busy the machine is.
const TRIES: usize = 10;
const SOON: Duration = Duration::from_millis(10);

/// The shortest of some delays is within 10 ms.
#[track_caller]
fn soon(mut delay: impl FnMut() -> Duration) {
    let shortest = (0..TRIES).map(|_| delay()).min().expect("tries");
    let soon = shortest <= testbed::patience(SOON);
    assert!(soon, "the shortest delay was {shortest:?}");
}

#[test]
fn by_the_end_of_a_share_s_lease() {
    let (server, mut c, _) = shared(["a"], "LIMIT 2");
    soon(|| {
        enter(&mut c, "b LIMIT 2");
        let mut next = wait(&server, "k d LIMIT 2 PX 600000 BLOCK 0");
        let end = testbed::state::unix_ms() + 40;
        run(&mut c, "LOCK.RENEW k b PX 40").grant();
        let token = next.granted().token;
        let ended = token / 1000 >= end - 1;
        assert!(ended, "granted at {token}, before the end at {end}");
        assert_eq!(owners(&mut c), ["a", "d"]);
        assert_eq!(run(&mut c, "LOCK.RELEASE k d").int(), 0);
        Duration::from_micros(u64::try_from(token - end * 1000).unwrap_or_default())
    });
}

#[test]
fn by_a_higher_bound_of_holders() {
    let (server, mut c) = Server::builder().config("lock.max-holders", "2").started();
    for owner in ["a", "b"] {
        enter(&mut c, &format!("{owner} SHARED"));
    }
    let mut next = wait_to_share(&server, ["d", "e"]);
    run(&mut c, "CONFIG SET lock.max-holders 3").okay();
    next[0].granted();
    held_and_waited_for(&mut c, &["a", "b", "d"], &["e"]);
    run(&mut c, "CONFIG SET lock.max-holders 10000").okay();
    next[1].granted();
}

#[test]
fn by_a_front_call_whose_time_is_up() {
    let (server, mut c, _) = shared(["a"], "SHARED");
    let mut writer = wait(&server, "k writer BLOCK 1500");
    let mut reader = wait(&server, "k b SHARED PX 600000 BLOCK 0");
    writer.receive().nil();
    reader.granted();
    assert_eq!(owners(&mut c), ["a", "b"]);
}

#[test]
fn by_a_front_call_that_is_called_off() {
    let (server, mut c, _) = shared(["a"], "SHARED");
    let mut writer = wait(&server, "k writer BLOCK 0");
    let mut readers = wait_to_share(&server, ["b", "d"]);
    let exec = transaction(&mut c, &["LOCK.RELEASE k writer ALL", "LOCK.INFO k"]);
    assert_eq!(exec[0].clone().int(), 0);
    // Inside the command.
    assert!(exec[1].clone().lock_info().holders >= 2);
    writer.receive().nil();
    all_granted(&mut readers);
    assert_eq!(owners(&mut c), ["a", "b", "d"]);
    assert_eq!(queue(&mut c), [""; 0]);
}

/// `a` lets go, and these callers are killed in the same transaction.
#[test]
fn some_of_them_are_gone() {
    let (copies, mut c) = Copies::started();
    enter(&mut c, "a");
    let mut readers = wait_to_share(&copies, ["b", "d", "e", "f", "g"]);
    let _writer = wait(&copies, "k writer PX 600000 BLOCK 0");
    let kills = [0, 2, 4].map(|gone: usize| format!("CLIENT KILL ID {}", readers[gone].id));
    let lines = [&["LOCK.RELEASE k a".to_owned()], &kills[..]].concat();
    assert_eq!(transaction(&mut c, &lines).len(), 4);
    for stays in [1, 3] {
        readers[stays].granted();
    }
    held_and_waited_for(&mut c, &["d", "f"], &["writer"]);
    copies.agree();
}
