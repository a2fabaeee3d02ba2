//! First come, first served.

use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{RngExt, SeedableRng};
use redis::Connection;
use testbed::{
    Expect, Talk, Waiter, cmd, eventually, nobody_waits, queue, run, started, traffic, unblocks,
    wait,
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
    let mut random = StdRng::seed_from_u64(traffic::seed("WAITING_SEED"));
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
