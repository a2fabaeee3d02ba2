//! Who waits is served strictly in order: from the front of the queue, each that has room, until one has
//! none.

use crate::holders::{enter, owners, shared};
use crate::support::{queue, run, wait};
use testbed::{Expect, Server};

#[test]
fn a_waiting_writer_holds_back_the_readers_behind_it() {
    let (server, mut c, _) = shared(["a"], "SHARED");
    let mut writer = wait(&server, "k writer PX 600000 BLOCK 0");
    let mut readers = ["b", "d"].map(|owner| wait(&server, &format!("k {owner} SHARED BLOCK 0")));
    assert_eq!(queue(&mut c), ["writer", "b", "d"]);
    assert_eq!(owners(&mut c), ["a"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    writer.granted();
    assert_eq!(
        (owners(&mut c), queue(&mut c)),
        (
            vec!["writer".to_owned()],
            vec!["b".to_owned(), "d".to_owned()]
        )
    );
    assert_eq!(run(&mut c, "LOCK.RELEASE k writer").int(), 0);
    for reader in &mut readers {
        reader.granted();
    }
    assert_eq!(owners(&mut c), ["b", "d"]);
}

#[test]
fn who_would_have_room_stands_behind_whoever_waits() {
    let (server, mut c, _) = shared(["a", "b"], "LIMIT 3");
    // It has no room until one is left; a permit is free meanwhile.
    let mut narrow = wait(&server, "k narrow LIMIT 2 PX 600000 BLOCK 0");
    run(&mut c, "LOCK.ACQUIRE k d LIMIT 3").nil();
    let mut behind = wait(&server, "k d LIMIT 3 PX 600000 BLOCK 0");
    assert_eq!(queue(&mut c), ["narrow", "d"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    narrow.granted();
    // Two are as many as `narrow` allows.
    assert_eq!(queue(&mut c), ["d"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
    assert_eq!(queue(&mut c), ["d"; 0]);
    behind.granted();
}

#[test]
fn who_polls_does_not_get_in_while_anybody_stands_in_line() {
    let (server, mut c, _) = shared(["a"], "SHARED");
    let mut line: Vec<_> = (0..20)
        .map(|n| wait(&server, &format!("k w{n} PX 600000 BLOCK 0")))
        .collect();
    let mut held = "a".to_owned();
    for (n, writer) in line.iter_mut().enumerate() {
        run(&mut c, "LOCK.ACQUIRE k poll SHARED").nil();
        assert_eq!(run(&mut c, &format!("LOCK.RELEASE k {held}")).int(), 0);
        run(&mut c, "LOCK.ACQUIRE k poll SHARED").nil();
        writer.granted();
        held = format!("w{n}");
    }
    assert_eq!(run(&mut c, &format!("LOCK.RELEASE k {held}")).int(), 0);
    run(&mut c, "LOCK.ACQUIRE k poll SHARED").grant();
}

#[test]
fn a_lock_that_is_free_with_calls_in_line_goes_to_those_at_the_front_first() {
    let server = Server::start();
    let mut c = server.connection();
    enter(&mut c, "a");
    let mut front =
        ["b", "d"].map(|owner| wait(&server, &format!("k {owner} SHARED PX 600000 BLOCK 0")));
    // In one transaction, so that no tick comes between.
    let lines = [
        "MULTI",
        "DEL k",
        "LOCK.ACQUIRE k e SHARED",
        "LOCK.ACQUIRE k f",
        "EXEC",
    ];
    let exec = crate::support::at_once(&mut c, &lines)
        .pop()
        .expect("EXEC")
        .items();
    assert_eq!(exec[1].clone().grant().limit, Some(0));
    exec[2].clone().nil();
    for reader in &mut front {
        reader.granted();
    }
    assert_eq!(owners(&mut c), ["b", "d", "e"]);
}
