//! Several grants on their way to callers of which some are gone: each share returns, one by one.

use crate::copies::Copies;
use crate::holders::{enter, owners};
use crate::support::{Waiter, at_once, queue, wait};
use testbed::{Expect, Server};

/// `a` lets go, and these callers are killed in the same transaction.
#[track_caller]
fn release_and_kill(server: &Server, release: &str, gone: &[&Waiter]) {
    let mut lines = vec!["MULTI".to_owned(), release.to_owned()];
    lines.extend(
        gone.iter()
            .map(|waiter| format!("CLIENT KILL ID {}", waiter.id)),
    );
    lines.push("EXEC".to_owned());
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let mut c = server.connection();
    let exec = at_once(&mut c, &lines).pop().expect("EXEC").items();
    assert_eq!(exec.len(), 1 + gone.len());
}

#[test]
fn some_of_them_are_gone() {
    let copies = Copies::start();
    let mut c = copies.connection();
    enter(&mut c, "a");
    let mut readers = ["b", "d", "e", "f", "g"]
        .map(|owner| wait(&copies, &format!("k {owner} SHARED PX 600000 BLOCK 0")));
    let _writer = wait(&copies, "k writer PX 600000 BLOCK 0");
    release_and_kill(
        &copies,
        "LOCK.RELEASE k a",
        &[&readers[0], &readers[2], &readers[4]],
    );
    for stays in [1, 3] {
        readers[stays].granted();
    }
    assert_eq!(
        (owners(&mut c), queue(&mut c)),
        (
            vec!["d".to_owned(), "f".to_owned()],
            vec!["writer".to_owned()]
        )
    );
    copies.agree();
}
