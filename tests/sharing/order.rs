//! Who waits is served strictly in order: from the front of the queue, each that has room, until one has
//! none.

use crate::holders::{enter, owners, shared};
use crate::support::{queue, run, wait};
use testbed::{Expect, started};

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
fn a_lock_that_is_free_with_calls_in_line_goes_to_those_at_the_front_first() {
    let (server, mut c) = started();
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
