//! The wall clock is set an hour forward or back: waits do not notice. By libfaketime, where it is.

use std::thread::sleep;
use std::time::{Duration, Instant};
use testbed::clock::SteppedClock;
use testbed::{Expect, Load, Server, Talk, cmd, run, wait};

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

/// Early in a wait, and just before its end.
#[test]
fn a_step_of_the_clock_neither_ends_nor_stalls_a_wait() {
    for (wait_ms, step_after_ms) in [(600, 200), (500, 495)] {
        with_steps(|clock, seconds| {
            let mut c = clock.server.connection();
            run(&mut c, "LOCK.ACQUIRE k a EX 36000").grant();
            let load = Load::on(&clock.server);
            let began = Instant::now();
            let mut first = wait(&clock.server, &format!("k b BLOCK {wait_ms}"));
            sleep(Duration::from_millis(step_after_ms).saturating_sub(began.elapsed()));
            clock.step(seconds);
            first.receive().nil();
            let waited = began.elapsed();
            let least = Duration::from_millis(wait_ms);
            let allowed = least..least + LATE + load.so_far();
            let what = format!("{waited:?} of {least:?} with a step of {seconds} s");
            assert!(allowed.contains(&(waited + EARLY)), "{what}");
            run(&mut c, "LOCK.RELEASE k a").value();
        });
    }
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
            let what = format!("{free}: {took:?} with a step of {seconds} s");
            assert!(took < LATE + load.so_far(), "{what}");
            run(&mut c, "LOCK.RELEASE k b").value();
        });
    }
}

/// The module tells the time by the server's clock, not by one of its own, which may be another's.
#[test]
fn a_script_goes_by_the_clock_of_the_server() {
    with_steps(|clock, seconds| {
        clock.step(seconds);
        let mut c = clock.server.connection();
        let token = run(&mut c, "LOCK.ACQUIRE k a SHARED PX 5000").grant().token;
        let script = "return redis.call('LOCK.FENCE', KEYS[1], ARGV[1])";
        cmd!(c, "EVAL", script, 1, "k", token).okay();
        run(&mut c, "LOCK.RELEASE k a").int();
    });
}
