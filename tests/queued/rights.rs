//! Rights are those of the session's user, judged at the call, and at the grant where the server judges its own
//! blocked commands again.

use crate::support::{granted, has};
use redis::Connection;
use testbed::{Expect, Server, Session, Talk, Waiter, cmd, held, line, run, wait, wait_on};

/// `ann` has queued for `k`, and a POLL of hers waits.
#[track_caller]
fn ann_queues() -> (Server, Connection, Session) {
    let (server, mut c) = held();
    run(&mut c, "ACL SETUSER ann on >secret ~* &* +@all").okay();
    let mut session = Session::open_on(server.connection_as("ann", "secret"), "");
    let words = session.call("k b");
    assert_eq!(run(&mut session, &words).int(), 0);
    session.stay(&server);
    (server, c, session)
}

#[test]
fn without_the_right_to_the_key_the_call_is_refused() {
    let (server, mut c, _session) = ann_queues();
    run(&mut c, "ACL SETUSER few on >secret ~own* +@all").okay();
    let mut few = Session::open_on(server.connection_as("few", "secret"), "");
    let words = few.call("k b");
    few.run(&words).refused("NOPERM");
    let words = few.call("own b");
    few.run(&words).grant();
    assert_eq!(server.count("queued"), 1);
}

#[test]
fn a_user_who_lost_the_right_to_the_key_is_treated_as_by_blpop() {
    let (server, mut c, mut session) = ann_queues();
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    let popping = server.connection_as("ann", "secret");
    let mut popping = Waiter::on(&server, popping, &line("BLPOP list 0"));
    run(&mut c, "ACL SETUSER ann resetkeys ~other").okay();
    run(&mut c, "RPUSH list x").int();
    run(&mut c, "LOCK.RELEASE k a").int();
    match popping.receive() {
        Ok(_) => assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]),
        Err(refusal) => {
            let event = session.told().remove(0);
            let start = format!("1 ended k b {} ", refusal.code());
            assert!(event.starts_with(&start), "{event}");
            behind.granted();
        }
    }
    assert_eq!(server.count("queued"), 0);
}

/// A call of hers at the front leaves, and those behind it are granted in the same moment.
#[test]
fn a_user_who_lost_the_command_is_treated_as_by_a_blocked_call() {
    let (server, mut c, mut session) = ann_queues();
    let ann = server.connection_as("ann", "secret");
    let mut blocked = wait_on(&server, ann, "k d PX 600000 BLOCK 0");
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    run(&mut c, "ACL SETUSER ann -lock.acquire").okay();
    run(&mut c, "LOCK.RELEASE k a").int();
    let event = session.told().remove(0);
    if event.starts_with("1 granted") {
        has(&mut c, "k", &["b"]);
        run(&mut c, "LOCK.RELEASE k b").int();
        blocked.granted();
    } else {
        assert!(event.starts_with("1 ended k b NOPERM "), "{event}");
        blocked.receive().refused("NOPERM");
        behind.granted();
    }
}

#[test]
fn calls_of_a_user_who_is_deleted_are_granted_no_more() {
    let (server, mut c, session) = ann_queues();
    let mut behind = wait(&server, "k c PX 600000 BLOCK 0");
    assert_eq!(run(&mut c, "ACL DELUSER ann").int(), 1);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(behind.granted().owner, b"c");
    drop(session);
}

/// Valkey from 9.1 can limit a user to some databases.
#[test]
fn a_user_who_lost_the_database_is_treated_as_by_a_blocked_call() {
    testbed::needs!(Server::version().is_valkey_from(9, 1));
    let (server, mut c) = held();
    run(&mut c, "SELECT 2").okay();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "ACL SETUSER ann on >secret ~* &* +@all db=0,2").okay();
    let [mut allowed, mut refused] = [0, 2].map(|database| {
        let mut connection = server.connection_as("ann", "secret");
        cmd!(connection, "SELECT", database).okay();
        let mut session = Session::open_on(connection, "");
        let words = session.call("k b");
        assert_eq!(session.run(&words).int(), 0);
        session.stay(&server);
        session
    });
    let behind = server.connection_in(2);
    let mut behind = wait_on(&server, behind, "k c PX 600000 BLOCK 0");
    run(&mut c, "ACL SETUSER ann resetdbs db=0").okay();
    run(&mut c, "LOCK.RELEASE k a").int();
    let event = refused.told().remove(0);
    assert!(event.starts_with("1 ended k b NOPERM "), "{event}");
    behind.granted();
    run(&mut c, "SELECT 0").okay();
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(allowed.told(), [granted(&mut c, 1, "k", "b")]);
    // What is asked for now is refused like any command.
    let words = refused.call("j b");
    refused.run(&words).refused("NOPERM");
    assert_eq!(server.count("queued"), 0);
}
