//! A program with many calls holds up only the locks that it waits for.

use crate::support::{has, hold};
use testbed::{Expect, Session, at_once, questions, run, started, transaction, wait, waiters};

/// So many calls take longer to pass over than the server's clients are held up for at once.
const CALLS: usize = 30_000;
const LINES: usize = 5;

/// It goes away, and the commands behind it run before all its calls are passed over.
#[test]
fn other_locks_are_handed_over_while_its_calls_are_passed_over() {
    let (server, mut c, mut many) = Session::opened();
    let away = Session::open(&server);
    let big: Vec<_> = (0..LINES).map(|number| format!("big{number}")).collect();
    hold(&mut c, &["k a", "free a"]);
    for key in &big {
        hold(&mut c, &[&format!("{key} a")]);
    }
    away.queue(&mut c, "free b");
    away.leave(&server);
    run(&mut c, "LOCK.RELEASE free a").int();
    let calls: Vec<_> = (0..CALLS)
        .map(|number| many.call(&format!("big{} o{number}", number % LINES)))
        .collect();
    for calls in calls.chunks(1000) {
        at_once(&mut c, calls);
    }
    many.stay(&server);
    let mut behind = wait(&server, "big0 z PX 600000 BLOCK 0");
    let mut next = wait(&server, "k b PX 600000 BLOCK 0");
    let kill = format!("CLIENT KILL ID {}", many.client_id(&mut c));
    let lines = [
        &kill,
        "LOCK.RELEASE big0 a",
        "LOCK.INFO big0",
        "LOCK.RELEASE k a",
        "LOCK.INFO k",
        "LOCK.ACQUIRE free c",
    ];
    let replies = transaction(&mut c, &lines);
    let [killed, released, nobody, handed_over, info, grant] =
        <[_; 6]>::try_from(replies).expect("six replies");
    assert_eq!([killed, released, handed_over].map(Expect::int), [1, 0, 0]);
    // A line with calls of both kinds has no order.
    nobody.nil();
    assert_eq!(info.lock_info().owner, b"b");
    assert_eq!(grant.grant().owner, b"c");
    assert_eq!(next.granted().owner, b"b");
    assert_eq!(behind.granted().owner, b"z");
    has(&mut c, "big0", &["z"]);
    assert_eq!(waiters(&mut c, "free"), ["b"]);
}

/// The server is asked for their connections, for many in one question.
#[test]
fn the_connections_of_many_programs_are_looked_up_together() {
    const PROGRAMS: usize = 200;
    let (server, mut c) = started();
    let mut programs: Vec<_> = (0..PROGRAMS).map(|_| Session::open(&server)).collect();
    for (number, program) in programs.iter_mut().enumerate() {
        hold(&mut c, &[&format!("k{number} a")]);
        program.queue(&mut c, &format!("k{number} b"));
        program.post_poll(60_000);
    }
    let before = questions(&server);
    let releases = (0..PROGRAMS).map(|number| format!("LOCK.RELEASE k{number} a"));
    at_once(&mut c, &releases.collect::<Vec<_>>());
    for program in &mut programs {
        assert_eq!(program.told().len(), 1);
    }
    let asked = questions(&server) - before;
    assert!(asked < PROGRAMS / 4, "{asked} questions");
}
