//! What a waiting client's connection may be like.

use redis::{Connection, Value};
use testbed::{
    Expect, Kind, Server, Talk, Waiter, blocked_clients, cmd, eventually, held, info, line,
    nobody_waits, owner, post_all, queue, run, wait, wait_as, wait_on,
};

#[test]
fn pipelined_commands_stay_queued_and_run_after_the_reply() {
    let (server, mut c) = held();
    let [mut waiter] = wait_as(&server, ["b"]);
    let held_by = "return redis.call('LOCK.INFO', KEYS[1])[2]";
    waiter.post(redis::Cmd::new().arg("EVAL").arg(held_by).arg(1).arg("k"));
    let behind = [
        "SET ran yes",
        "LOCK.RELEASE k b",
        "LOCK.ACQUIRE k c BLOCK 0",
        "PING",
    ];
    post_all(&mut waiter, behind);
    assert!(waiter.is_blocked(&mut c));
    run(&mut c, "GET ran").nil();
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(waiter.granted().owner, b"b");
    assert_eq!(waiter.receive().bytes(), b"b");
    waiter.receive().okay();
    assert_eq!(waiter.receive().int(), 0);
    assert_eq!(waiter.receive().grant().owner, b"c");
    assert_eq!(waiter.receive().text(), "PONG");
}

#[test]
fn pipelined_commands_run_after_a_wait_that_ended_without_a_grant() {
    let (server, mut c) = held();
    let mut waiter = wait(&server, "k b BLOCK 1000");
    let behind = [
        "LOCK.ACQUIRE k b BLOCK 1",
        "LOCK.ACQUIRE k b BLOCK 0",
        "PING",
    ];
    post_all(&mut waiter, behind);
    waiter.receive().nil();
    waiter.receive().nil();
    eventually(|| queue(&mut c) == ["b"], "the third call to wait");
    run(&mut c, "LOCK.RELEASE k b ALL").int();
    waiter.receive().nil();
    assert_eq!(waiter.receive().text(), "PONG");
    nobody_waits(&server);
}

/// As for `BLPOP`: the client is granted the lock, and is not told.
#[test]
fn a_client_that_wants_no_replies_is_granted_all_the_same() {
    let (server, mut c) = held();
    for (quiet, owner_waiting) in [("CLIENT REPLY OFF", "b"), ("CLIENT REPLY SKIP", "c")] {
        let mut silent = server.connection();
        let call = format!("LOCK.ACQUIRE k {owner_waiting} PX 600000 BLOCK 0");
        post_all(&mut silent, [quiet, &call]);
        eventually(|| queue(&mut c) == [owner_waiting], "it to wait");
        let holder = owner(&mut c);
        cmd!(c, "LOCK.RELEASE", "k", holder).int();
        assert_eq!(owner(&mut c), owner_waiting);
        silent.post(&line("CLIENT REPLY ON"));
        silent.receive().okay();
        assert_eq!(run(&mut silent, "PING").text(), "PONG");
        // Its call counts as answered: the grant stays.
        let held = info(&mut c);
        assert_eq!((held.owner, held.holds), (owner_waiting.into(), 1));
    }
}

#[test]
fn resp3_clients_get_the_same_grant_and_a_null() {
    let (server, mut c) = held();
    let mut waiter = wait_on(&server, server.connection_resp3(), "k b PX 600000 BLOCK 0");
    let mut short = wait_on(&server, server.connection_resp3(), "k c BLOCK 1000");
    assert_eq!(short.receive().value(), Value::Nil);
    run(&mut c, "LOCK.RELEASE k a").int();
    let grant = waiter.granted();
    let found = (&grant.owner[..], grant.holds, grant.lease);
    assert_eq!(found, (&b"b"[..], 1, 600_000));
}

#[test]
fn a_waiter_stays_in_its_database() {
    let (server, mut c) = held();
    let mut five = server.connection_in(5);
    run(&mut five, "LOCK.ACQUIRE k a PX 600000").grant();
    let waiting = server.connection_in(5);
    let mut waiter = wait_on(&server, waiting, "k b PX 600000 BLOCK 0");
    waiter.post(&line("INCR counter"));
    assert_eq!((queue(&mut c).len(), queue(&mut five).len()), (0, 1));
    // The lock of the same name in another database is another lock.
    run(&mut c, "DEL k").int();
    assert!(waiter.is_blocked(&mut c));
    // By the event loop, where no database is selected.
    run(&mut five, "PEXPIRE k 20").int();
    waiter.granted();
    assert_eq!(waiter.receive().int(), 1);
    assert_eq!(owner(&mut five), "b");
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
    assert_eq!(run(&mut five, "EXISTS counter").int(), 1);
}

/// Redis 7.0 serves such a client; later servers run its call again, and refuse it.
#[test]
fn a_user_who_lost_the_right_to_the_key_is_treated_as_by_blpop() {
    let (server, mut c) = held();
    run(&mut c, "ACL SETUSER ann on >secret ~* +@all").okay();
    let [mut waiter, mut popping] = ["LOCK.ACQUIRE k b PX 600000 BLOCK 0", "BLPOP list 0"]
        .map(|call| Waiter::on(&server, server.connection_as("ann", "secret"), &line(call)));
    run(&mut c, "ACL SETUSER ann resetkeys ~other").okay();
    run(&mut c, "RPUSH list x").int();
    run(&mut c, "LOCK.RELEASE k a").int();
    match popping.receive() {
        Ok(_) => assert_eq!(waiter.granted().owner, b"b"),
        Err(refusal) => {
            waiter.receive().refused(refusal.code());
            assert_eq!(run(&mut c, "EXISTS k").int(), 0);
        }
    }
    nobody_waits(&server);
}

/// Valkey from 9.1 can limit a user to some databases.
#[test]
fn a_user_of_some_databases_is_granted_the_lock_there_while_it_may_use_them() {
    testbed::needs!(Server::version().is_valkey_from(9, 1));
    let (server, mut c) = held();
    run(&mut c, "SELECT 2").okay();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    run(&mut c, "ACL SETUSER ann on >secret ~* +@all db=0,2").okay();
    let mut asking = server.connection_as("ann", "secret");
    run(&mut asking, "SELECT 1").refused("NOPERM");
    let ann_waits = |database: i64, owner: &str| {
        let mut connection = server.connection_as("ann", "secret");
        cmd!(connection, "SELECT", database).okay();
        wait_on(&server, connection, &format!("k {owner} PX 600000 BLOCK 0"))
    };
    for (database, freed) in [(0, "LOCK.RELEASE k a"), (2, "PEXPIRE k 30")] {
        let mut waiter = ann_waits(database, "b");
        cmd!(c, "SELECT", database).okay();
        run(&mut c, freed).int();
        assert_eq!(waiter.granted().owner, b"b");
    }
    // Taken away while it waits.
    let [mut allowed, mut refused] = [0, 2].map(|database| ann_waits(database, "c"));
    run(&mut c, "ACL SETUSER ann resetdbs db=0").okay();
    for database in [0, 2] {
        cmd!(c, "SELECT", database).okay();
        run(&mut c, "LOCK.RELEASE k b").int();
    }
    allowed.granted();
    refused.receive().refused("NOPERM");
    assert_eq!(run(&mut c, "EXISTS k").int(), 0);
    nobody_waits(&server);
}

const SUBSCRIPTIONS: [(&str, &str); 3] = [
    ("SUBSCRIBE news", "UNSUBSCRIBE news"),
    ("PSUBSCRIBE new*", "PUNSUBSCRIBE new*"),
    ("SSUBSCRIBE news", "SUNSUBSCRIBE news"),
];

/// Valkey from 8.1.1 on lets a module block clients alone that have not subscribed.
fn lets_subscribers_wait() -> bool {
    let version = Server::version();
    version.kind == Kind::Redis || version.number < (8, 1, 1)
}

/// A connection that has sent this, which is answered by a message out of line.
#[track_caller]
fn said(c: &mut Connection, words: &str) {
    c.post(&line(words));
    let answer = c.receive().value();
    assert!(matches!(answer, Value::Push { .. }), "{words}: {answer:?}");
}

#[test]
fn a_subscribed_client_waits_or_is_told_that_this_server_does_not_let_it() {
    for (subscribe, unsubscribe) in SUBSCRIPTIONS {
        let (server, mut c) = held();
        let mut subscribed = server.connection_resp3();
        said(&mut subscribed, subscribe);
        let call = line("LOCK.ACQUIRE k b PX 600000 BLOCK 0");
        let mut waiter = if lets_subscribers_wait() {
            Waiter::on(&server, subscribed, &call)
        } else {
            for words in ["k b BLOCK 0", "k b BLOCK 1000", "k b BLOCK 1000 HOLDS 1"] {
                let error = run(&mut subscribed, &format!("LOCK.ACQUIRE {words}")).refused("ERR");
                assert!(error.contains("subscribe"), "{error}");
            }
            // Nothing is left of a call that was refused, and the client continues.
            nobody_waits(&server);
            assert_eq!(blocked_clients(&server), 0);
            assert_eq!(owner(&mut c), "a");
            run(&mut subscribed, "LOCK.ACQUIRE k b").nil();
            run(&mut subscribed, "LOCK.ACQUIRE free b BLOCK 1000").grant();
            said(&mut subscribed, unsubscribe);
            Waiter::on(&server, subscribed, &call)
        };
        assert_eq!(queue(&mut c), ["b"]);
        run(&mut c, "LOCK.RELEASE k a").int();
        assert_eq!(waiter.granted().owner, b"b");
        assert_eq!(run(&mut waiter, "PING").text(), "PONG");
        assert!(server.signs_of_a_crash().is_empty());
    }
}

/// A client that waits and is then closed gives its place away, subscribed or not.
#[test]
fn a_subscribed_client_that_goes_leaves_the_line() {
    testbed::needs!(lets_subscribers_wait());
    let (server, mut c) = held();
    let mut subscribed = server.connection_resp3();
    said(&mut subscribed, "SUBSCRIBE news");
    let waiter = wait_on(&server, subscribed, "k b BLOCK 0");
    assert_eq!(queue(&mut c), ["b"]);
    drop(waiter);
    nobody_waits(&server);
}
