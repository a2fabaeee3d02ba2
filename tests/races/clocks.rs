//! The wall clock is set an hour forward or back: waits do not notice. By libfaketime, where it is.

use crate::support::{run, wait};
use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::clock::SteppedClock;
use testbed::{Expect, Load, Server, Talk};

/// How late the end of a wait, or a hand-off, may be for a step of the clock of an hour, beside what a busy
/// machine adds.
const LATE: Duration = Duration::from_millis(600);
/// What the two ends of a connection may see of one wait apart.
const EARLY: Duration = Duration::from_millis(5);

const AN_HOUR: i64 = 3600;

/// Steps in both directions; what is done in each is as if nothing had happened.
fn with_steps(body: impl Fn(&SteppedClock, i64)) {
    let clock = match SteppedClock::start(Server::builder()) {
        Ok(clock) => clock,
        Err(reason) => return println!("skipped: {reason}"),
    };
    for round in 0..5 {
        for seconds in [-AN_HOUR, AN_HOUR] {
            clock.step(0);
            sleep(Duration::from_millis(13 * round));
            body(&clock, seconds);
        }
    }
}

#[test]
fn a_step_of_the_clock_neither_ends_nor_stalls_a_wait() {
    with_steps(|clock, seconds| {
        let mut c = clock.server.connection();
        run(&mut c, "LOCK.ACQUIRE k a EX 36000").grant();
        let wait_ms = Duration::from_millis(600);
        let load = Load::on(&clock.server);
        let began = Instant::now();
        let mut first = wait(&clock.server, "k b BLOCK 600");
        sleep(Duration::from_millis(200));
        clock.step(seconds);
        first.receive().nil();
        let waited = began.elapsed();
        let allowed = wait_ms..wait_ms + LATE + load.so_far();
        assert!(
            allowed.contains(&(waited + EARLY)),
            "waited {waited:?} with a step of {seconds} s"
        );
        run(&mut c, "LOCK.RELEASE k a").value();
    });
}

#[test]
fn a_step_of_the_clock_just_before_its_end_does_not_stall_a_wait() {
    with_steps(|clock, seconds| {
        let mut c = clock.server.connection();
        run(&mut c, "LOCK.ACQUIRE k a EX 36000").grant();
        let load = Load::on(&clock.server);
        let began = Instant::now();
        let mut first = wait(&clock.server, "k b BLOCK 500");
        sleep(Duration::from_millis(495).saturating_sub(began.elapsed()));
        clock.step(seconds);
        first.receive().nil();
        let waited = began.elapsed();
        let wait_ms = Duration::from_millis(500);
        let allowed = wait_ms..wait_ms + LATE + load.so_far();
        assert!(
            allowed.contains(&(waited + EARLY)),
            "waited {waited:?} with a step of {seconds} s"
        );
        run(&mut c, "LOCK.RELEASE k a").value();
    });
}

#[test]
fn a_step_of_the_clock_does_not_stall_a_hand_off() {
    for free in ["LOCK.RELEASE k a", "DEL k", "FLUSHALL"] {
        with_steps(|clock, seconds| {
            let mut c = clock.server.connection();
            run(&mut c, "LOCK.ACQUIRE k a EX 36000").grant();
            let mut first = wait(&clock.server, "k b EX 36000 BLOCK 0");
            clock.step(seconds);
            sleep(Duration::from_millis(20));
            let load = Load::on(&clock.server);
            let began = Instant::now();
            run(&mut c, free).value();
            first.granted();
            let took = began.elapsed();
            assert!(
                took < LATE + load.so_far(),
                "{free}: {took:?} with a step of {seconds} s"
            );
            run(&mut c, "LOCK.RELEASE k b").value();
        });
    }
}
