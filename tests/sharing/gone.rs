//! Several grants on their way to callers of which some are gone: each share comes back, one by one.

use crate::copies::Copies;
use crate::holders::{enter, holder, owners};
use crate::support::{Waiter, at_once, queue, run, unblocks, wait};
use testbed::{Expect, Server, Talk, eventually};

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
fn all_of_them_are_gone() {
    let copies = Copies::start();
    let mut c = copies.connection();
    for many in [3, 40] {
        enter(&mut c, "a");
        let gone: Vec<_> = (0..many)
            .map(|n| wait(&copies, &format!("k b{n} SHARED PX 600000 BLOCK 0")))
            .collect();
        let mut writer = wait(&copies, "k writer PX 600000 BLOCK 0");
        release_and_kill(
            &copies,
            "LOCK.RELEASE k a",
            &gone.iter().collect::<Vec<_>>(),
        );
        writer.granted();
        assert_eq!(owners(&mut c), ["writer"]);
        run(&mut c, "LOCK.RELEASE k writer").int();
    }
    copies.agree();
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
fn a_give_back_comes_before_the_next_command_on_the_lock() {
    let server = Server::start();
    let mut c = server.connection();
    enter(&mut c, "a");
    let gone =
        ["b", "d"].map(|owner| wait(&server, &format!("k {owner} LIMIT 2 PX 600000 BLOCK 0")));
    let kills = gone
        .each_ref()
        .map(|waiter| format!("CLIENT KILL ID {}", waiter.id));
    // A command behind the kills, in the same write.
    let lines = [
        "LOCK.RELEASE k a",
        &kills[0],
        &kills[1],
        "LOCK.ACQUIRE k e PX 600000",
        "LOCK.INFO k",
    ];
    let mut replies = at_once(&mut c, &lines);
    assert_eq!(replies.pop().expect("INFO").lock_info().owner, b"e");
    assert_eq!(replies.pop().expect("a grant").grant().holds, 1);
}

/// A give-back that waited for a pause refreshes no lease that has ended meanwhile.
#[test]
fn a_share_that_has_ended_is_not_given_back_in_part() {
    let copies = Copies::start();
    let mut c = copies.connection();
    enter(&mut c, "a");
    let mut twin = wait(&copies, "k b SHARED PX 300 BLOCK 0");
    let gone = wait(&copies, "k b SHARED PX 300 BLOCK 0");
    let mut other = wait(&copies, "k d SHARED PX 600000 BLOCK 0");
    let kill = format!("CLIENT KILL ID {}", gone.id);
    at_once(
        &mut c,
        &["LOCK.RELEASE k a", &kill, "CLIENT PAUSE 60000 WRITE"],
    );
    twin.granted();
    other.granted();
    let ended = || owners(&mut copies.connection()) == ["d"];
    eventually(ended, "the lease to end");
    assert_eq!(at_once(&mut c, &["CLIENT UNPAUSE"]).len(), 1);
    assert_eq!(owners(&mut c), ["d"]);
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
fn a_narrowing_of_one_that_is_gone_stays_and_its_hold_goes() {
    let copies = Copies::start();
    let mut c = copies.connection();
    enter(&mut c, "a");
    let mut reader = wait(&copies, "k b SHARED PX 600000 BLOCK 0");
    let gone = wait(&copies, "k b LIMIT 1 PX 600000 BLOCK 0");
    release_and_kill(&copies, "LOCK.RELEASE k a", &[&gone]);
    reader.granted();
    let told = holder(&mut c, "b");
    assert_eq!((told.holds, told.limit), (1, 1));
    copies.agree();
}

#[test]
fn who_is_unblocked_in_the_moment_of_the_grant_gives_back() {
    if !unblocks() {
        return;
    }
    let server = Server::start();
    let mut c = server.connection();
    enter(&mut c, "a");
    let mut readers =
        ["b", "d"].map(|owner| wait(&server, &format!("k {owner} SHARED PX 600000 BLOCK 0")));
    let unblock = format!("CLIENT UNBLOCK {}", readers[0].id);
    let exec = at_once(&mut c, &["MULTI", "LOCK.RELEASE k a", &unblock, "EXEC"])
        .pop()
        .expect("EXEC")
        .items();
    readers[1].granted();
    // It is told of its grant, or gives it back.
    let reply = readers[0].receive().value();
    if reply == redis::Value::Nil {
        assert_eq!(exec[1].clone().int(), 1);
        assert_eq!(owners(&mut c), ["d"]);
    } else {
        reply.grant();
        assert_eq!(owners(&mut c), ["b", "d"]);
    }
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
