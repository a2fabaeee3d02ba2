//! What a queued call is answered: its place, the grant at once, or an error; and the same when it is repeated.

use crate::support::{granted, has, hold, released};
use redis::Value;
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
    assert_eq!(released(&server, &mut c, &mut session).len(), 1);
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
    assert_eq!(released(&server, &mut c, &mut session).len(), 1);
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

/// Nobody could repeat the call.
#[test]
fn an_owner_that_the_server_names_cannot_queue() {
    let (server, mut c, session) = Session::held();
    session.ask(&mut c, "k *").refused("ERR");
    session.ask(&mut c, "free *").refused("ERR");
    assert_eq!(server.count("queued"), 0);
}

#[test]
fn a_very_long_name_cannot_be_queued_for() {
    let (_server, mut c, session) = Session::opened();
    let (longest, longer) = ("k".repeat(8192), "k".repeat(8193));
    for key in [&longest, &longer] {
        hold(&mut c, &[&format!("{key} a")]);
    }
    assert_eq!(session.queue(&mut c, &format!("{longest} b")), 0);
    let text = session.ask(&mut c, &format!("{longer} b")).refused("ERR");
    assert!(text.contains("8192 bytes"), "{text}");
}

#[test]
fn the_first_of_the_order_wins() {
    let (server, mut c, mut session) = Session::opened();
    run(&mut c, "SET string v").okay();
    hold(&mut c, &["k a", "mine b", "two a SHARED", "two b SHARED"]);
    // `a` waits for what `b` has, so `b` would close a cycle by waiting for `k`.
    session.queue(&mut c, "mine a");
    run(&mut c, "CONFIG SET lock.max-waiters 0").okay();
    for (words, code) in [
        ("string b QUEUE x SESSION 7 HOLDS 1", "ERR"),
        ("string b QUEUE 0 SESSION 7", "ERR"),
        ("string b QUEUE 0 SESSION 7 HOLDS 1 PX 999", "ERR"),
        ("string b QUEUE 0 SESSION 7 HOLDS 1", "NOSESSION"),
        ("free b QUEUE 0 SESSION 7 HOLDS 2", "NOSESSION"),
        ("string b QUEUE 0 SESSION ID HOLDS 2", "WRONGTYPE"),
        ("free b QUEUE 0 SESSION ID HOLDS 2", "NOTHELD"),
        ("mine b QUEUE 0 SESSION ID HOLDS 3", "NOTHELD"),
        ("k b QUEUE 0 SESSION ID HOLDS 2", "NOTOWNER"),
        ("two b QUEUE 0 SESSION ID HOLDS 2", "NOTALONE"),
        ("k b QUEUE 0 SESSION ID HOLDS 1", "MAXWAITERS"),
    ] {
        println!("{words}");
        session.run(&format!("LOCK.ACQUIRE {words}")).refused(code);
    }
    run(&mut c, "CONFIG SET lock.max-waiters 10").okay();
    run(&mut c, "CONFIG SET lock.max-queued 0").okay();
    session.ask(&mut c, "k b").refused("MAXWAITERS");
    run(&mut c, "CONFIG SET lock.max-queued 10").okay();
    session.ask(&mut c, "k b").refused("DEADLOCK");
    assert_eq!(server.count("queued"), 1);
    assert_eq!(session.number(&mut c, "events"), 0);
}

/// What depends on the lock's state comes last.
#[test]
fn a_default_lease_that_is_too_short_comes_last() {
    let (_server, mut c, mut session) = Session::opened();
    run(&mut c, "CONFIG SET lock.default-lease-ms 500").okay();
    for (holds, code) in [(2, "NOTHELD"), (1, "ERR")] {
        let words = format!("free b QUEUE 0 SESSION ID HOLDS {holds}");
        println!("{words}");
        session.run(&format!("LOCK.ACQUIRE {words}")).refused(code);
    }
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
}

#[test]
fn it_takes_no_second_place() {
    let (server, mut c, session) = Session::held();
    let words = ["k b", "k c", "k d"];
    for _ in 0..3 {
        for (place, words) in (0..).zip(words) {
            assert_eq!(session.queue(&mut c, words), place);
        }
    }
    assert_eq!(server.count("queued"), 3);
    // From any connection, and the place of the moment.
    run(&mut c, "LOCK.RELEASE k b ALL").int();
    assert_eq!(session.queue(&mut server.connection(), "k d"), 1);
    assert_eq!(waiters(&mut c, "k"), ["c", "d"]);
}

#[test]
fn the_options_of_the_first_call_stay() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    for option in ["PX 1000", "SHARED", "LIMIT 5"] {
        let words = format!("LOCK.ACQUIRE k b {option} QUEUE 1 SESSION ID HOLDS 1");
        assert_eq!(session.run(&words).int(), 0, "{words}");
    }
    let fields = run(&mut c, "LOCK.WAITERS k").items().remove(0).fields();
    assert_eq!(fields["left-ms"], Value::Int(-1));
    assert_eq!(fields["limit"], Value::Int(1));
    let events = released(&server, &mut c, &mut session);
    assert_eq!(events, [granted(&mut c, 1, "k", "b")]);
}

#[test]
fn after_the_grant_it_answers_the_grant() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let event = granted(&mut c, 1, "k", "b");
    for _ in 0..2 {
        let grant = session.ask(&mut c, "k b").grant();
        assert_eq!((grant.holds, grant.lease), (1, 600_000));
        let same = format!("1 granted k b {} 1 600000 1", grant.token);
        assert_eq!(event, same);
    }
    // The event comes too.
    assert_eq!(session.told(), [event]);
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (1, vec![]));
}

/// A call that fell due in between is served first, and then the repeated one is judged.
#[test]
fn on_a_lock_whose_lease_has_just_ended_it_answers_the_grant() {
    let (server, mut c, mut session) = Session::held();
    for number in 1..=10 {
        session.queue(&mut c, "k b");
        session.stay(&server);
        run(&mut c, "LOCK.RENEW k a PX 1").grant();
        std::thread::sleep(std::time::Duration::from_millis(2));
        match session.ask(&mut c, "k b").value() {
            Value::Int(place) => assert_eq!(place, 0),
            grant => assert_eq!(grant.grant().holds, 1),
        }
        assert_eq!(session.told(), [granted(&mut c, number, "k", "b")]);
        session.release(&mut c, "k", "b");
        hold(&mut c, &["k a"]);
    }
}

/// Neither a limit nor a cycle concerns a call that is in line.
#[test]
fn it_is_judged_by_no_limit_and_no_cycle() {
    let (server, mut c, session) = Session::opened();
    hold(&mut c, &["k a", "j b"]);
    session.queue(&mut c, "k b");
    run(&mut c, "CONFIG SET lock.deadlock-detection no").okay();
    session.queue(&mut c, "j a");
    run(&mut c, "CONFIG SET lock.deadlock-detection yes").okay();
    run(&mut c, "CONFIG SET lock.max-waiters 0").okay();
    run(&mut c, "CONFIG SET lock.max-queued 0").okay();
    assert_eq!(session.queue(&mut c, "k b"), 0);
    assert_eq!(session.queue(&mut c, "j a"), 0);
    assert_eq!(server.count("deadlocks"), 0);
}
