//! What a queued call is answered: its place, or the grant at once.

use crate::support::{has, hold};
use testbed::{Expect, Session, cmd, run, transaction, wait, waiters};

#[test]
fn a_free_lock_is_granted_at_once_and_that_is_no_event() {
    let (server, mut c, mut session) = Session::opened();
    let grant = session.ask(&mut c, "k b").grant();
    assert_eq!((grant.owner, grant.holds), (b"b".to_vec(), 1));
    assert_eq!((grant.lease, grant.limit), (600_000, None));
    let grant = session.ask(&mut c, "shared b SHARED").grant();
    assert_eq!(grant.limit, Some(0));
    // On the connection that polls, too.
    let words = session.call("own b");
    run(&mut session, &words).grant();
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (3, vec![]));
    assert_eq!(server.count("queued"), 0);
}

#[test]
fn where_there_is_room_beside_the_holders_it_is_granted_at_once() {
    let (_server, mut c, session) = Session::opened();
    hold(&mut c, &["k a LIMIT 2"]);
    session.ask(&mut c, "k b LIMIT 2").grant();
    assert_eq!(session.queue(&mut c, "k c LIMIT 2"), 0);
    has(&mut c, "k", &["a", "b"]);
}

/// How many calls stand before it, blocked ones too.
#[test]
fn the_reply_is_its_place() {
    let (server, mut c, session) = Session::held();
    assert_eq!(session.queue(&mut c, "k b"), 0);
    let _waiting = wait(&server, "k c BLOCK 0");
    assert_eq!(session.queue(&mut c, "k d"), 2);
    let other = Session::open(&server);
    assert_eq!(other.queue(&mut c, "k e"), 3);
    assert_eq!(waiters(&mut c, "k"), ["b", "c", "d", "e"]);
    // A lock of its own line.
    hold(&mut c, &["j a"]);
    assert_eq!(other.queue(&mut c, "j e"), 0);
}

/// Its connection serves other calls, the POLL too.
#[test]
fn it_never_blocks_its_connection() {
    let (server, mut c, mut session) = Session::held();
    for owner in ["b", "c"] {
        let words = session.call(&format!("k {owner}"));
        run(&mut session, &words).int();
        assert_eq!(run(&mut session, "PING").text(), "PONG");
    }
    assert_eq!(server.count("queued"), 2);
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.told().len(), 1);
}

#[test]
fn it_works_in_a_transaction() {
    let (_server, mut c, session) = Session::held();
    let lines = ["k b", "k c", "k b", "free b"].map(|words| session.call(words));
    let exec = transaction(&mut c, &lines);
    let places: Vec<_> = exec[..3].iter().cloned().map(Expect::int).collect();
    assert_eq!(places, [0, 1, 0]);
    exec[3].clone().grant();
    assert_eq!(waiters(&mut c, "k"), ["b", "c"]);
}

#[test]
fn it_works_in_scripts_and_functions() {
    let (server, mut c, mut session) = Session::held();
    let call = "'LOCK.ACQUIRE', keys[1], args[1], 'PX', '600000', 'QUEUE', '0', 'SESSION', args[2], 'HOLDS', '1'";
    let script = format!("local keys, args = KEYS, ARGV return redis.call({call})");
    assert_eq!(cmd!(c, "EVAL", script, 1, "k", "b", session.id).int(), 0);
    let library = format!(
        "#!lua name=s\nredis.register_function('s', function(keys, args) return redis.call({call}) end)"
    );
    cmd!(c, "FUNCTION", "LOAD", library).text();
    assert_eq!(cmd!(c, "FCALL", "s", 1, "k", "c", session.id).int(), 1);
    cmd!(c, "FCALL", "s", 1, "free", "c", session.id).grant();
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.told().len(), 1);
    has(&mut c, "k", &["b"]);
}

#[test]
fn a_wait_that_would_close_a_cycle_is_answered_at_once() {
    let (server, mut c, session) = Session::held();
    hold(&mut c, &["j b"]);
    session.queue(&mut c, "k b");
    let text = session.ask(&mut c, "j a").refused("DEADLOCK");
    assert!(text.contains("2 owners"), "{text}");
    // Blocked calls see queued ones.
    run(&mut c, "LOCK.ACQUIRE j a BLOCK 10000").refused("DEADLOCK");
    assert_eq!(server.count("queued"), 1);
    assert_eq!(server.count("deadlocks"), 2);
    assert_eq!(session.number(&mut c, "events"), 0);
    run(&mut c, "CONFIG SET lock.deadlock-detection no").okay();
    assert_eq!(session.queue(&mut c, "j a"), 0);
}
