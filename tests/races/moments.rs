//! What a waiting call meets in the same millisecond: its deadline, its grant, its calling off, the
//! end of the lease before it. Some hundred times each; whoever came first, the lock goes on.

use crate::copies::Copies;
use crate::ends::has_it_at_once;
use crate::support::{at_once, line, nobody_waits, run};
use redis::{Connection, Value};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::{Expect, Talk, eventually, post};

const TIMES: u32 = 150;

/// The moment that two things are to meet in, a little earlier or later each time.
fn meet(since: Instant, millis: u64, round: u32) {
    let moment = since + Duration::from_millis(millis) + Duration::from_micros(50) * (round % 40);
    let moment = moment
        .checked_sub(Duration::from_millis(1))
        .expect("a moment");
    sleep(moment.saturating_duration_since(Instant::now()));
}

/// Has `a` hold `k`, `b` wait for it by `call`, and `c` wait behind; `race` takes its course and
/// tells whether `b` holds the lock now. In the end `c` has had the lock and nobody has it.
#[track_caller]
fn again_and_again(held: &str, call: &str, mut race: impl FnMut(Race<'_>) -> bool) {
    let copies = Copies::start();
    let mut c = copies.connection();
    let mut times = [0, 0];
    for round in 0..TIMES {
        let Ends {
            mut first,
            since,
            mut next,
        } = wait_behind(&copies, held, call);
        let granted = race(Race {
            c: &mut c,
            first: &mut first,
            since,
            round,
        });
        times[usize::from(granted)] += 1;
        if granted {
            assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
        }
        has_it_at_once(&mut next);
        assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
        run(&mut c, "LOCK.INFO k").nil();
    }
    println!("{call}: not granted and granted {times:?} times");
    nobody_waits(&copies);
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

struct Race<'a> {
    c: &'a mut Connection,
    first: &'a mut Connection,
    since: Instant,
    round: u32,
}

struct Ends {
    first: Connection,
    since: Instant,
    next: Connection,
}

/// `b` waits, and `c` behind it.
#[track_caller]
fn wait_behind(copies: &Copies, held: &str, call: &str) -> Ends {
    let (mut first, mut next) = (copies.connection(), copies.connection());
    run(&mut next, held).grant();
    let since = Instant::now();
    first.post(&line(call));
    // The server takes what has come before this first.
    run(&mut next, "PING").value();
    next.post(&line("LOCK.ACQUIRE k c PX 600000 BLOCK 0"));
    Ends { first, since, next }
}

/// Nil, or a grant.
#[track_caller]
fn granted(reply: Value) -> bool {
    let granted = reply != Value::Nil;
    if granted {
        reply.grant();
    }
    granted
}

const FOR_LONG: &str = "LOCK.ACQUIRE k a PX 600000";

#[test]
fn its_deadline_and_its_grant() {
    again_and_again(FOR_LONG, "LOCK.ACQUIRE k b PX 600000 BLOCK 6", |race| {
        meet(race.since, 6, race.round);
        assert_eq!(run(race.c, "LOCK.RELEASE k a").int(), 0);
        granted(race.first.receive().value())
    });
}

#[test]
fn its_calling_off_and_its_grant() {
    let call = "LOCK.ACQUIRE k b PX 600000 BLOCK 0";
    again_and_again(FOR_LONG, call, |race| {
        let mut lines = ["LOCK.RELEASE k a", "LOCK.RELEASE k b ALL"];
        if race.round % 2 == 0 {
            lines.reverse();
        }
        for reply in at_once(race.c, &lines) {
            assert_eq!(reply.int(), 0);
        }
        // Granted or not, its owner neither holds nor waits.
        granted(race.first.receive().value());
        false
    });
}

#[test]
fn its_deadline_and_its_calling_off() {
    again_and_again(FOR_LONG, "LOCK.ACQUIRE k b PX 600000 BLOCK 6", |race| {
        meet(race.since, 6, race.round);
        if let Ok(left) = run(race.c, "LOCK.RELEASE k b ALL") {
            assert_eq!(left, Value::Int(0));
        }
        race.first.receive().nil();
        assert_eq!(run(race.c, "LOCK.RELEASE k a").int(), 0);
        false
    });
}

#[test]
fn its_deadline_and_the_end_of_the_lease_before_it() {
    let held = "LOCK.ACQUIRE k a PX 6";
    again_and_again(held, "LOCK.ACQUIRE k b PX 600000 BLOCK 6", |race| {
        granted(race.first.receive().value())
    });
}

#[test]
fn the_release_and_the_end_of_the_lease() {
    let held = "LOCK.ACQUIRE k a PX 6";
    again_and_again(held, "LOCK.ACQUIRE k b PX 600000 BLOCK 0", |race| {
        meet(race.since, 6, race.round);
        match run(race.c, "LOCK.RELEASE k a") {
            Ok(left) => assert_eq!(left, Value::Int(0)),
            Err(refusal) => assert!(
                ["NOTHELD", "NOTOWNER"].contains(&refusal.code()),
                "{refusal}"
            ),
        }
        granted(race.first.receive().value())
    });
}

/// The client closes as it is granted, or as its time is up. Where it was told of its grant before,
/// the lock stays with it for its lease, as that of any client that closes.
#[test]
fn its_closing_its_deadline_and_its_grant() {
    let copies = Copies::start();
    let mut c = copies.connection();
    let mut leases_to_their_end = 0;
    for round in 0..TIMES {
        let call = "LOCK.ACQUIRE k b PX 80 BLOCK 6";
        let Ends {
            first,
            since,
            mut next,
        } = wait_behind(&copies, FOR_LONG, call);
        meet(since, 6, round);
        post!(c, "LOCK.RELEASE", "k", "a");
        drop(first);
        let released = Instant::now();
        has_it_at_once(&mut next);
        leases_to_their_end += u32::from(released.elapsed() > Duration::from_millis(60));
        assert_eq!(c.receive().int(), 0);
        assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
    }
    println!("{leases_to_their_end} of {TIMES} were told of their grant before they closed");
    eventually(
        || run(&mut c, "LOCK.INFO k").value() == Value::Nil,
        "the lock to be free",
    );
    nobody_waits(&copies);
    copies.agree();
}
