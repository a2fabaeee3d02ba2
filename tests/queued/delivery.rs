//! No event and no place is lost with a connection.

use crate::support::{Session, granted, hold, run, wait};
use testbed::{Expect, Server, Talk, cmd, held, waiters};

#[test]
fn a_grant_is_told_until_it_is_acknowledged() {
    let (server, mut c) = held();
    let mut session = Session::open(&server);
    session.queue(&mut c, "k b");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let event = granted(&mut c, 1, "k", "b");
    assert_eq!(session.told(), [event.clone()]);
    // The reply is lost with its connection.
    let mut session = session.leave(&server).back(&server);
    assert_eq!(session.poll().events, [event]);
    assert_eq!(session.number(&mut c, "events"), 1);
    assert_eq!(session.poll().events, Vec::<String>::new());
    assert_eq!(session.number(&mut c, "events"), 0);
    let mut session = session.leave(&server).back(&server);
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (1, vec![]));
}

#[test]
fn the_end_of_a_call_is_told_until_it_is_acknowledged() {
    let (server, mut c) = held();
    let session = Session::open(&server);
    session.queue(&mut c, "k b");
    let gone = session.leave(&server);
    run(&mut c, "LOCK.RELEASE k b ALL").int();
    for _ in 0..2 {
        let mut session = gone.back(&server);
        assert_eq!(session.poll().events, ["1 ended k b cancelled"]);
        session.leave(&server);
    }
}

#[test]
fn a_reconnect_keeps_every_place() {
    let (server, mut c) = held();
    let mut first = Session::open(&server);
    let mut second = Session::open(&server);
    first.queue(&mut c, "k b");
    second.queue(&mut c, "k c");
    first.queue(&mut c, "k d");
    for _ in 0..3 {
        first = first.leave(&server).back(&server);
        first.stay(&server);
    }
    second.stay(&server);
    assert_eq!(waiters(&mut c, "k"), ["b", "c", "d"]);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(first.told(), [granted(&mut c, 1, "k", "b")]);
    first.release(&mut c, "k", "b");
    assert_eq!(second.told(), [granted(&mut c, 1, "k", "c")]);
    first.stay(&server);
    second.release(&mut c, "k", "c");
    assert_eq!(first.told(), [granted(&mut c, 2, "k", "d")]);
}

#[test]
fn a_newer_connection_that_takes_over_keeps_every_place() {
    let (server, mut c) = held();
    let mut older = Session::open(&server);
    let mut newer = Session {
        id: older.id,
        connection: server.connection(),
    };
    older.queue(&mut c, "k b");
    let _behind = wait(&server, "k c BLOCK 0");
    older.stay(&server);
    newer.stay(&server);
    older.connection.receive().refused("UNBLOCKED");
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(newer.told(), [granted(&mut c, 1, "k", "b")]);
    // The close of the older one is that of any connection.
    drop(older);
    hold(&mut c, &["j a"]);
    assert_eq!(newer.queue(&mut c, "j b"), 0);
    newer.stay(&server);
    run(&mut c, "LOCK.RELEASE j a").int();
    assert_eq!(newer.told(), [granted(&mut c, 2, "j", "b")]);
}

/// The program sees what it missed in one reply, oldest first.
#[test]
fn a_new_connection_gets_what_happened_meanwhile() {
    let server = Server::start();
    let mut c = server.connection();
    let session = Session::open(&server);
    hold(&mut c, &["k a", "j a"]);
    session.ask(&mut c, "mine b").grant();
    session.queue(&mut c, "k b");
    session.queue(&mut c, "j b");
    let token = cmd!(c, "LOCK.FENCE", "mine").int();
    let gone = session.leave(&server);
    run(&mut c, "DEL mine").int();
    run(&mut c, "SET j v").okay();
    run(&mut c, "LOCK.RELEASE k a").int();
    let mut session = gone.back(&server);
    let events = session.events(3);
    assert_eq!(events[0], format!("1 lost mine b {token} deleted"));
    assert!(
        events[1].starts_with("2 ended j b WRONGTYPE "),
        "{events:?}"
    );
    assert_eq!(events[2], granted(&mut c, 3, "k", "b"));
}
