//! Who waits is served strictly in order: from the front of the queue, each that has room, until one has
//! none.

use crate::holders::{enter, shared};
use testbed::{
    Expect, held_and_waited_for, owners, queue, run, started, transaction, wait, wait_to_share,
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
    for reader in &mut readers {
        reader.granted();
    }
    assert_eq!(owners(&mut c), ["b", "d"]);
}

#[test]
fn a_lock_that_is_free_with_calls_in_line_goes_to_those_at_the_front_first() {
    let (server, mut c) = started();
    enter(&mut c, "a");
    let mut front = wait_to_share(&server, ["b", "d"]);
    // In one transaction, so that no tick comes between.
    let exec = transaction(
        &mut c,
        &["DEL k", "LOCK.ACQUIRE k e SHARED", "LOCK.ACQUIRE k f"],
    );
    assert_eq!(exec[1].clone().grant().limit, Some(0));
    exec[2].clone().nil();
    for reader in &mut front {
        reader.granted();
    }
    assert_eq!(owners(&mut c), ["b", "d", "e"]);
}
