//! However a lock becomes free, the queued call at the front gets it.

use crate::support::{granted, has, hold};
use testbed::{Copies, Expect, Session, held, run, wait, waiters};

#[test]
fn by_the_end_of_its_lease() {
    for end in ["LOCK.RENEW k a PX 30", "PEXPIRE k 30"] {
        let (server, mut c, mut session) = Session::held();
        session.queue(&mut c, "k b");
        let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
        session.stay(&server);
        run(&mut c, end).value();
        assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")], "{end}");
        assert_eq!(waiters(&mut c, "k"), ["c"], "{end}");
        run(&mut c, "LOCK.RELEASE k b").int();
        behind.granted();
    }
}

/// It waits for the key of its own database, by name.
#[test]
fn a_call_stays_with_its_database() {
    let (server, mut c) = held();
    let mut there = server.connection();
    run(&mut there, "SELECT 3").okay();
    let mut third = Session::open_on(server.connection(), "");
    run(&mut third, "SELECT 3").okay();
    let mut third = Session::open_on(third.connection, "");
    hold(&mut there, &["k x"]);
    let mut first = Session::open(&server);
    first.queue(&mut c, "k b");
    third.queue(&mut there, "k y");
    third.stay(&server);
    run(&mut there, "LOCK.RELEASE k x").int();
    let told = third.told();
    assert_eq!(told, [granted(&mut there, 1, "k", "y")]);
    has(&mut c, "k", &["a"]);
    assert_eq!(server.count("queued"), 1);
    // The databases change places: `y` has the lock that `b` waits for.
    run(&mut c, "SWAPDB 0 3").okay();
    has(&mut c, "k", &["y"]);
    first.stay(&server);
    run(&mut c, "LOCK.RELEASE k y").int();
    assert_eq!(first.told(), [granted(&mut c, 1, "k", "b")]);
}

/// The replica and the file have the grants that the sessions were told of.
#[test]
fn replicas_and_the_aof_follow() {
    let (copies, mut c) = Copies::started();
    hold(&mut c, &["k a", "shared a SHARED"]);
    let mut session = Session::open(&copies);
    session.queue(&mut c, "k b");
    session.queue(&mut c, "shared b");
    session.queue(&mut c, "k c");
    session.stay(&copies);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
    session.stay(&copies);
    run(&mut c, "LOCK.RENEW shared a SHARED PX 30").grant();
    assert_eq!(session.told(), [granted(&mut c, 2, "shared", "b")]);
    copies.agree();
}
