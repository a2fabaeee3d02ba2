//! However a lock becomes free, the queued call at the front gets it.

use crate::copies::Copies;
use crate::support::{Session, granted, hold, holders, queued, run, wait};
use redis::Connection;
use testbed::{Expect, Server, cmd, held};

/// A queued call of `b` and a blocked one of `c` wait for `k`, which is freed in this way.
#[track_caller]
fn goes_to_the_first(free: impl FnOnce(&mut Connection)) {
    let (server, mut c) = held();
    let mut session = Session::open(&server);
    session.queue(&mut c, "k b");
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    session.stay(&server);
    free(&mut c);
    run(&mut c, "SELECT 0").okay();
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
    assert_eq!(testbed::waiters(&mut c, "k"), ["c"]);
    run(&mut c, "LOCK.RELEASE k b").int();
    behind.granted();
}

#[test]
fn by_the_end_of_its_lease() {
    goes_to_the_first(|c| {
        run(c, "LOCK.RENEW k a PX 30").grant();
    });
    goes_to_the_first(|c| {
        run(c, "PEXPIRE k 30").int();
    });
}

#[test]
fn by_a_deletion() {
    for words in ["DEL k", "UNLINK k", "FLUSHDB", "FLUSHALL ASYNC"] {
        goes_to_the_first(|c| {
            run(c, words).value();
        });
    }
}

#[test]
fn by_a_move() {
    for words in ["RENAME k elsewhere", "MOVE k 3", "SWAPDB 0 3"] {
        goes_to_the_first(|c| {
            run(c, words).value();
        });
    }
}

#[test]
fn by_a_transaction_and_a_script() {
    goes_to_the_first(|c| {
        let script = "return redis.call('LOCK.RELEASE', KEYS[1], 'a')";
        cmd!(*c, "EVAL", script, 1, "k").int();
    });
    goes_to_the_first(|c| {
        run(c, "MULTI").okay();
        run(c, "LOCK.RELEASE k a").text();
        run(c, "EXEC").items();
    });
}

#[test]
fn by_the_close_of_its_holders_session() {
    let server = Server::start();
    let mut c = server.connection();
    let holding = Session::open(&server);
    holding.ask(&mut c, "k a").grant();
    let mut session = Session::open(&server);
    session.queue(&mut c, "k b");
    session.stay(&server);
    assert_eq!(run(&mut c, &holding.line("LOCK.SESSION CLOSE ID")).int(), 1);
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
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
    assert_eq!(holders(&mut c, "k"), ["a"]);
    assert_eq!(queued(&server), 1);
    // The databases change places: `y` has the lock that `b` waits for.
    run(&mut c, "SWAPDB 0 3").okay();
    assert_eq!(holders(&mut c, "k"), ["y"]);
    first.stay(&server);
    run(&mut c, "LOCK.RELEASE k y").int();
    assert_eq!(first.told(), [granted(&mut c, 1, "k", "b")]);
}

/// A hand-off puts one grant in the place of another.
#[test]
fn in_a_full_memory_too() {
    let (server, mut c) = held();
    let mut session = Session::open(&server);
    session.queue(&mut c, "k b");
    run(&mut c, "CONFIG SET maxmemory 1").okay();
    session.ask(&mut c, "k c").refused("OOM");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
}

/// The replica and the file have the grants that the sessions were told of.
#[test]
fn replicas_and_the_aof_follow() {
    let copies = Copies::start();
    let mut c = copies.connection();
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
