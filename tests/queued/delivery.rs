//! No event and no place is lost with a connection.

use crate::support::{granted, hold};
use testbed::{Expect, Session, Talk, run, wait, waiters};

#[test]
fn a_grant_is_told_until_it_is_acknowledged() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let event = granted(&mut c, 1, "k", "b");
    assert_eq!(session.told(), std::slice::from_ref(&event));
    // The reply is lost with its connection.
    let mut session = session.reconnect(&server);
    assert_eq!(session.poll().events, [event]);
    assert_eq!(session.number(&mut c, "events"), 1);
    assert_eq!(session.poll().events, Vec::<String>::new());
    assert_eq!(session.number(&mut c, "events"), 0);
    let mut session = session.reconnect(&server);
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (1, vec![]));
}

#[test]
fn a_reconnect_keeps_every_place() {
    let (server, mut c, mut first) = Session::held();
    let mut second = Session::open(&server);
    first.queue(&mut c, "k b");
    second.queue(&mut c, "k c");
    first.queue(&mut c, "k d");
    for _ in 0..3 {
        first = first.reconnect(&server);
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
    let (server, mut c, mut older) = Session::held();
    let mut newer = Session::again(older.id, &server);
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
