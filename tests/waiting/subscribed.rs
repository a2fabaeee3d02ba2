//! Calls that would wait, of RESP3 clients that have subscribed to something.

use redis::{Connection, Value};
use testbed::{
    Expect, Kind, Server, Talk, Waiter, blocked_clients, held, line, nobody_waits, owner, queue,
    run, wait_on,
};

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
    if !lets_subscribers_wait() {
        return;
    }
    let (server, mut c) = held();
    let mut subscribed = server.connection_resp3();
    said(&mut subscribed, "SUBSCRIBE news");
    let waiter = wait_on(&server, subscribed, "k b BLOCK 0");
    assert_eq!(queue(&mut c), ["b"]);
    drop(waiter);
    nobody_waits(&server);
}
