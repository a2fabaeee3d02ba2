//! Several grants on their way to callers of which some are gone: each share returns, one by one.

use crate::copies::Copies;
use crate::holders::{enter, holder, owners};
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

#[test]
fn a_permit_of_one_that_is_gone_goes_to_the_next_and_on() {
    let copies = Copies::start();
    let mut c = copies.connection();
    for owner in ["a", "b"] {
        enter(&mut c, &format!("{owner} LIMIT 2"));
    }
    let gone =
        ["d", "e", "f"].map(|owner| wait(&copies, &format!("k {owner} LIMIT 2 PX 600000 BLOCK 0")));
    let mut next = wait(&copies, "k g LIMIT 2 PX 600000 BLOCK 0");
    release_and_kill(
        &copies,
        "LOCK.RELEASE k a",
        &gone.iter().collect::<Vec<_>>(),
    );
    next.granted();
    assert_eq!(owners(&mut c), ["b", "g"]);
    copies.agree();
}

#[test]
fn a_twin_that_was_answered_keeps_the_grant_and_the_hold_of_the_other_goes() {
    let copies = Copies::start();
    let mut c = copies.connection();
    enter(&mut c, "a");
    let mut twin = wait(&copies, "k b SHARED PX 600000 BLOCK 0");
    let gone = wait(&copies, "k b SHARED PX 600000 BLOCK 0");
    let mut other = wait(&copies, "k d SHARED PX 600000 BLOCK 0");
    release_and_kill(&copies, "LOCK.RELEASE k a", &[&gone]);
    twin.granted();
    other.granted();
    assert_eq!(
        (owners(&mut c), holder(&mut c, "b").holds),
        (vec!["b".to_owned(), "d".to_owned()], 1)
    );
    copies.agree();
}

#[test]
fn a_share_that_is_freed_by_force_while_on_its_way_is_given_back_by_nobody() {
    let server = Server::start();
    let mut c = server.connection();
    enter(&mut c, "a");
    let gone = wait(&server, "k b SHARED PX 600000 BLOCK 0");
    let kill = format!("CLIENT KILL ID {}", gone.id);
    let lines = [
        "MULTI",
        "LOCK.RELEASE k a",
        "DEL k",
        "LOCK.ACQUIRE k b SHARED PX 600000",
        &kill,
        "EXEC",
    ];
    let exec = at_once(&mut c, &lines).pop().expect("EXEC").items();
    let anew = exec[2].clone().grant();
    // Another grant of the same owner.
    for _ in 0..20 {
        assert_eq!(holder(&mut c, "b").token, anew.token);
    }
}
