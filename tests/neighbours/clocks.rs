//! The wall clock is set back while the module works in a timer, which another module makes long. By
//! libfaketime, where it is.

use crate::support::{beside, is_well};
use std::thread::sleep;
use std::time::Duration;
use testbed::clock::SteppedClock;
use testbed::{Expect, Talk, eventually, run, wait_as};

/// The server calls all timers that were due by the clock as it was when it began with them. One that arms itself
/// again would be called without end, and no client be served for an hour.
#[test]
fn a_clock_that_is_set_back_during_a_timer_does_not_hang_the_server() {
    let clock = match SteppedClock::start(beside("")) {
        Ok(clock) => clock,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let server = &clock.server;
    let mut c = server.connection();
    for round in 1..=3 {
        clock.step(3600);
        run(&mut c, "DEL k").value();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let [mut next] = wait_as(server, ["b"]);
        // Ticks go on for this one.
        let [mut last] = wait_as(server, ["c"]);
        run(&mut c, "NEIGHBOUR.ON lock.acquire 1 E DEBUG SLEEP 0.4").okay();
        run(&mut c, "DEL k").int();
        sleep(Duration::from_millis(100));
        clock.step(0);
        assert_eq!(next.receive().grant().owner, b"b");
        let ping = testbed::redis::cmd("PING");
        eventually(|| server.ask(&ping).is_some(), "an answer");
        assert_eq!(run(&mut c, "NEIGHBOUR.RAN").int(), 1);
        // By a tick, as ever.
        let reply = run(&mut c, &format!("PEXPIRE k {round}")).int();
        assert_eq!(reply, 1);
        assert_eq!(last.receive().grant().owner, b"c");
    }
    is_well(server);
}
