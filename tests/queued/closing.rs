//! What becomes of queued calls when their session ends.

use crate::support::hold;
use testbed::{
    Expect, Session, at_once, eventually, held, run, started, transaction, wait, waiters,
};

#[test]
fn its_calls_leave_the_line() {
    for subcommand in ["CLOSE", "KILL"] {
        let (server, mut c) = held();
        hold(&mut c, &["j a"]);
        let mut session = Session::open(&server);
        let other = Session::open(&server);
        session.queue(&mut c, "k b");
        other.queue(&mut c, "k c");
        session.queue(&mut c, "k d");
        session.queue(&mut c, "j b");
        let words = session.line(&format!("LOCK.SESSION {subcommand} ID"));
        assert_eq!(run(&mut c, &words).int(), 0);
        assert_eq!(waiters(&mut c, "k"), ["c"]);
        assert_eq!(waiters(&mut c, "j"), [""; 0]);
        assert_eq!(server.count("queued"), 1);
        session.ask(&mut c, "k b").refused("NOSESSION");
        session.run("LOCK.SESSION POLL ID").refused("NOSESSION");
    }
}

#[test]
fn its_grants_are_released_and_go_to_the_next_in_line() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.queue(&mut c, "k d");
    let mut next = wait(&server, "k c PX 600000 BLOCK 0");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    session.told();
    assert_eq!(run(&mut c, &session.line("LOCK.SESSION CLOSE ID")).int(), 1);
    // Its other call in the same line is gone by then.
    assert_eq!(next.granted().owner, b"c");
    assert_eq!(waiters(&mut c, "k"), [""; 0]);
}

/// Many calls in many lines are removed in slices, each before any LOCK command on its key could meet it.
#[test]
fn nothing_is_left_of_many_calls() {
    const CALLS: i64 = 5000;
    let (server, mut c, mut session) = Session::held();
    // Otherwise a slow machine would find the program away, and none of its calls is granted for that reason.
    session.stay(&server);
    let of_a_number = |n| {
        let own = format!("LOCK.ACQUIRE own{n} a PX 600000");
        let [in_one, in_another] = [format!("k b{n}"), format!("own{n} b")];
        [own, session.call(&in_one), session.call(&in_another)]
    };
    let lines: Vec<_> = (0..CALLS).flat_map(of_a_number).collect();
    for part in lines.chunks(1000) {
        at_once(&mut c, part);
    }
    assert_eq!(server.count("queued"), 2 * CALLS);
    let mut next = wait(&server, "k next PX 600000 BLOCK 0");
    let close = session.line("LOCK.SESSION CLOSE ID");
    let commands = [&close, "LOCK.RELEASE k a", "LOCK.RELEASE own4999 a"];
    for reply in at_once(&mut c, &commands) {
        assert_eq!(reply.int(), 0);
    }
    assert_eq!(next.granted().owner, b"next");
    assert_eq!(run(&mut c, "EXISTS own4999").int(), 0);
    eventually(|| server.count("queued") == 0, "all to be gone");
    assert_eq!(waiters(&mut c, "k"), [""; 0]);
    assert_eq!(waiters(&mut c, "own2500"), [""; 0]);
}

/// Its calls held back others, of whom the first are granted inside the command, however many calls it has.
#[test]
fn those_behind_its_calls_are_granted_inside_the_command() {
    for word in ["CLOSE", "KILL"] {
        let (server, mut c) = started();
        hold(&mut c, &["k a SHARED", "other a"]);
        let mut session = Session::open(&server);
        session.queue(&mut c, "k b");
        let calls = (0..5000).map(|n| session.call(&format!("other b{n}")));
        at_once(&mut c, &calls.collect::<Vec<_>>());
        session.stay(&server);
        let mut behind = wait(&server, "k c SHARED PX 600000 BLOCK 0");
        let close = session.line(&format!("LOCK.SESSION {word} ID"));
        let replies = transaction(&mut c, &[&close, "LOCK.HOLDERS k"]);
        assert_eq!(replies[1].clone().items().len(), 2, "{word}");
        assert_eq!(behind.granted().owner, b"c");
    }
}
