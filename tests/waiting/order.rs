//! First come, first served: nobody slips past the queue.

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use redis::{Connection, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use testbed::{
    Expect, Talk, Waiter, at_once, cmd, eventually, held, held_and_waited_for, info, nobody_waits,
    post_all, queue, run, started, traffic, unblocks, wait, wait_as,
};

const WAITERS: usize = 100;
/// Long enough for all to join, and then waited for.
const SHORT_WAIT_MS: usize = 3000;

/// How somebody leaves the queue before his turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leave {
    TimeOut,
    Close,
    Kill,
    CallOff,
    Unblock,
}

impl Leave {
    fn any(random: &mut StdRng) -> Option<Self> {
        use Leave::{CallOff, Close, Kill, TimeOut, Unblock};
        let mut ways = vec![TimeOut, Close, Kill, CallOff];
        if unblocks() {
            ways.push(Unblock);
        }
        random
            .random_ratio(1, 2)
            .then(|| *ways.choose(random).expect("ways"))
    }
}

fn leave(c: &mut Connection, how: Leave, owner: &str, mut waiter: Waiter) {
    match how {
        Leave::TimeOut => waiter.receive().nil(),
        Leave::Close => drop(waiter),
        Leave::Kill => assert_eq!(cmd!(*c, "CLIENT", "KILL", "ID", waiter.id).int(), 1),
        Leave::CallOff => {
            assert_eq!(cmd!(*c, "LOCK.RELEASE", "k", owner, "ALL").int(), 0);
            waiter.receive().nil();
        }
        Leave::Unblock => {
            assert_eq!(cmd!(*c, "CLIENT", "UNBLOCK", waiter.id, "ERROR").int(), 1);
            waiter.receive().refused("UNBLOCKED");
        }
    }
}

/// Ends the grant of the one whose turn it was.
fn end_turn(c: &mut Connection, owner: &str, random: &mut StdRng) {
    match random.random_range(0..4) {
        0 => assert_eq!(run(c, "DEL k").int(), 1),
        1 => assert_eq!(run(c, "PEXPIRE k 5").int(), 1),
        2 => assert_eq!(cmd!(*c, "LOCK.RELEASE", "k", owner, "ALL").int(), 0),
        _ => assert_eq!(cmd!(*c, "LOCK.RELEASE", "k", owner).int(), 0),
    }
}

#[test]
fn of_a_hundred_waiters_those_who_stay_are_granted_in_order() {
    let (server, mut c) = started();
    let mut random = StdRng::seed_from_u64(traffic::seed());
    run(&mut c, "LOCK.ACQUIRE k first PX 600000").grant();
    let (mut leaving, mut staying) = (Vec::new(), Vec::new());
    for n in 0..WAITERS {
        let (owner, how) = (format!("w{n}"), Leave::any(&mut random));
        let short = how == Some(Leave::TimeOut);
        let wait_ms = if short { SHORT_WAIT_MS } else { 0 };
        let waiter = wait(&server, &format!("k {owner} PX 600000 BLOCK {wait_ms}"));
        match how {
            Some(how) => leaving.push((how, owner, waiter)),
            None => staying.push((owner, waiter)),
        }
    }
    leaving.shuffle(&mut random);
    let kinds: Vec<_> = leaving.iter().map(|(how, ..)| *how).collect();
    println!("leaving: {kinds:?}");
    for (how, owner, waiter) in leaving {
        leave(&mut c, how, &owner, waiter);
    }
    let owners: Vec<_> = staying.iter().map(|(owner, _)| owner.clone()).collect();
    eventually(|| queue(&mut c) == owners, "those who stay to be left");

    let (mut last, mut before) = (0, "first".to_owned());
    for (owner, waiter) in &mut staying {
        end_turn(&mut c, &before, &mut random);
        let grant = waiter.granted();
        assert_eq!(grant.owner, owner.as_bytes());
        assert!(grant.token > last);
        (last, before) = (grant.token, owner.clone());
    }
    nobody_waits(&server);
}

const NEWCOMER: &str = "LOCK.ACQUIRE k newcomer PX 600000";

/// The newcomer gets nil, and `b`, who waits, the lock.
#[test]
fn not_in_the_write_or_the_transaction_that_frees_the_lock() {
    for lines in [
        &["LOCK.RELEASE k a", NEWCOMER][..],
        // Not even the one who had it.
        &["LOCK.RELEASE k a", "LOCK.ACQUIRE k a"],
        &["DEL k", NEWCOMER],
        &["FLUSHALL", NEWCOMER],
        &["MULTI", "LOCK.RELEASE k a", NEWCOMER, "EXEC"],
        &["MULTI", "DEL k", NEWCOMER, "EXEC"],
        &[
            "MULTI",
            "UNLINK k",
            "LOCK.ACQUIRE k newcomer BLOCK 0",
            "EXEC",
        ],
    ] {
        let (server, mut c) = held();
        let [mut first, second] = wait_as(&server, ["b", "c"]);
        let mut last = at_once(&mut c, lines).pop().expect("a reply").value();
        if lines[0] == "MULTI" {
            last = last.items().pop().expect("a reply");
        }
        assert_eq!(last, Value::Nil, "{lines:?}");
        assert_eq!(first.granted().owner, b"b");
        held_and_waited_for(&mut c, &["b"], &["c"]);
        assert!(second.is_blocked(&mut c));
    }
}

#[test]
fn not_by_a_deletion_in_the_same_script() {
    let (server, mut c) = held();
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
    let (server, mut c) = held();
    let [mut first] = wait_as(&server, ["b"]);
    let lines = ["DEL k", "LOCK.ACQUIRE k newcomer PX 600000 BLOCK 0"];
    let mut admin = server.connection();
    post_all(&mut c, lines);
    assert_eq!(c.receive().int(), 1);
    assert_eq!(first.granted().owner, b"b");
    assert_eq!(queue(&mut admin), ["newcomer"]);
    run(&mut admin, "LOCK.RELEASE k b").int();
    assert_eq!(c.receive().grant().owner, b"newcomer");
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
    let (server, mut c) = held();
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
