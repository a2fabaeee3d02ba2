//! Steps of the wall clock. By libfaketime, where it is.

use crate::support::{Keeper, await_renewals, run, stands};
use testbed::clock::SteppedClock;
use testbed::{Expect, Server};

const AN_HOUR: i64 = 3600;

/// A server whose clock can be set; says so where it cannot.
fn stepped() -> Option<SteppedClock> {
    SteppedClock::start(Server::builder())
        .map_err(|reason| println!("skipped: {reason}"))
        .ok()
}

/// Before any other command on the connection is answered.
#[test]
fn a_step_forward_ends_kept_leases_and_closes() {
    let Some(clock) = stepped() else { return };
    let mut c = clock.server.connection();
    for hours in 1..=20 {
        let mut keeper = Keeper::on(&clock.server, &format!("k a{hours} PX 1000 KEEP 60000"));
        clock.step(AN_HOUR * hours);
        keeper.throw(&["PING"]);
        keeper.is_closed();
        run(&mut c, &format!("LOCK.RENEW k a{hours}")).refused("NOTHELD");
    }
}

/// The lease ends later by the clock, until it is renewed.
#[test]
fn a_step_back_ends_nothing_and_silence_is_measured_by_another_clock() {
    let Some(clock) = stepped() else { return };
    let mut c = clock.server.connection();
    let mut keeper = Keeper::of(clock.server.connection());
    let token = keeper.acquire("k a PX 1000 KEEP 60000").token;
    clock.step(-AN_HOUR);
    await_renewals(&clock.server, 2);
    keeper.is_answered();
    stands(&mut c, token);
    let left = run(&mut c, "PTTL k").int();
    assert!(left <= 1000, "{left}");
}
