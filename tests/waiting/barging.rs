//! Nobody slips past the queue.

use crate::support::{at_once, info, owner, queue, run, wait, wait_as};
use redis::{Connection, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testbed::{Expect, Reply, Server, Talk, cmd};

const NEWCOMER: &str = "LOCK.ACQUIRE k newcomer PX 600000";

/// Has `a` hold `k` and `b` wait, sends this by another client, and demands that the newcomer in it
/// gets nil and `b` the lock.
#[track_caller]
fn newcomer_stays_out(lines: &[&str], reply_of_newcomer: impl FnOnce(Vec<Reply>) -> Value) {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, second] = wait_as(&server, ["b", "c"]);
    let replies = at_once(&mut c, lines);
    assert_eq!(reply_of_newcomer(replies), Value::Nil);
    assert_eq!(first.granted().owner, b"b");
    assert_eq!(
        (owner(&mut c), queue(&mut c)),
        ("b".into(), vec!["c".into()])
    );
    assert!(second.is_blocked(&mut c));
}

fn last(mut replies: Vec<Reply>) -> Value {
    replies.pop().expect("a reply").value()
}

fn last_of_transaction(replies: Vec<Reply>) -> Value {
    last(replies).items().pop().expect("a reply")
}

#[test]
fn not_between_a_release_and_the_first_waiter() {
    newcomer_stays_out(&["LOCK.RELEASE k a", NEWCOMER], last);
}

#[test]
fn not_in_a_transaction_that_releases() {
    let lines = ["MULTI", "LOCK.RELEASE k a", NEWCOMER, "EXEC"];
    newcomer_stays_out(&lines, last_of_transaction);
}

#[test]
fn not_by_a_deletion_in_the_same_write() {
    newcomer_stays_out(&["DEL k", NEWCOMER], last);
}

#[test]
fn not_by_a_flush_in_the_same_write() {
    newcomer_stays_out(&["FLUSHALL", NEWCOMER], last);
}

#[test]
fn not_by_a_deletion_in_the_same_transaction() {
    let lines = ["MULTI", "DEL k", NEWCOMER, "EXEC"];
    newcomer_stays_out(&lines, last_of_transaction);
}

#[test]
fn not_by_a_call_that_may_wait_in_the_same_transaction() {
    let lines = [
        "MULTI",
        "UNLINK k",
        "LOCK.ACQUIRE k newcomer BLOCK 0",
        "EXEC",
    ];
    newcomer_stays_out(&lines, last_of_transaction);
}

#[test]
fn not_by_a_deletion_in_the_same_script() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first] = wait_as(&server, ["b"]);
    let script = "
        redis.call('DEL', KEYS[1])
        return {redis.call('LOCK.ACQUIRE', KEYS[1], 'newcomer', 'PX', 600000),
            redis.call('LOCK.ACQUIRE', KEYS[1], 'b', 'PX', 600000)[3]}";
    let replies = cmd!(c, "EVAL", script, 1, "k").items();
    assert_eq!(replies[0], Value::Nil);
    // It saw the waiter's grant, and entered it again.
    assert_eq!(replies[1].clone().int(), 2);
    assert_eq!(first.granted().owner, b"b");
    assert_eq!(info(&mut c).holds, 2);
}

/// It joins at the end.
#[test]
fn not_by_a_call_that_waits_in_the_same_write() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first] = wait_as(&server, ["b"]);
    let lines = ["DEL k", "LOCK.ACQUIRE k newcomer PX 600000 BLOCK 0"];
    let mut admin = server.connection();
    for words in lines {
        c.post(&crate::support::line(words));
    }
    assert_eq!(c.receive().int(), 1);
    assert_eq!(first.granted().owner, b"b");
    assert_eq!(queue(&mut admin), ["newcomer"]);
    run(&mut admin, "LOCK.RELEASE k b").int();
    assert_eq!(c.receive().grant().owner, b"newcomer");
}

/// Whoever was there first goes first, and a call of its own owner does too: it is a re-entry.
#[test]
fn not_even_by_the_one_who_had_it() {
    newcomer_stays_out(&["LOCK.RELEASE k a", "LOCK.ACQUIRE k a"], last);
}

/// Asks for the lock until it is told to stop; gives the number of tries that got it.
fn poll(mut c: Connection, stop: &AtomicBool) -> usize {
    let mut granted = 0;
    while !stop.load(Ordering::Relaxed) {
        let reply = run(&mut c, "LOCK.ACQUIRE k poller PX 600000").value();
        granted += usize::from(reply != Value::Nil);
    }
    granted
}

#[test]
fn not_by_a_poller_when_a_lease_ends() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut waiters: Vec<_> = (0..20)
        .map(|n| wait(&server, &format!("k w{n} PX 20 BLOCK 0")))
        .collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let pollers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| poll(server.connection(), &stop)))
            .collect();
        run(&mut c, "LOCK.RENEW k a PX 20").grant();
        let mut last = 0;
        for (n, waiter) in waiters.iter_mut().enumerate() {
            let grant = waiter.granted();
            assert_eq!(grant.owner, format!("w{n}").into_bytes());
            // The server keeps the end of a lease in whole milliseconds.
            assert!(grant.token >= last + 19_000, "before the lease had ended");
            last = grant.token;
            if n + 2 == 20 {
                stop.store(true, Ordering::Relaxed);
            }
        }
        for poller in pollers {
            assert_eq!(poller.join().expect("a poller"), 0);
        }
    });
}
