//! Steps of the wall clock. By libfaketime, where it is.

use testbed::clock::SteppedClock;
use testbed::{Expect, Server, Session, await_renewals, run};

const AN_HOUR: i64 = 3600;

/// A server whose clock can be set; says so where it cannot.
fn stepped() -> Option<SteppedClock> {
    SteppedClock::start(Server::builder())
        .map_err(|reason| println!("skipped: {reason}"))
        .ok()
}

#[test]
fn a_step_forward_ends_leases_and_the_next_reply_tells() {
    let Some(clock) = stepped() else { return };
    let mut c = clock.server.connection();
    let mut session = Session::open(&clock.server);
    for hours in 1..=20 {
        session.acquire(&format!("k a{hours} PX 1000"));
        clock.step(AN_HOUR * hours);
        // Nothing is sure of a lease that has ended, whether the reply tells of it already or not.
        let mut polled = session.poll();
        while polled.events.is_empty() {
            assert_eq!(polled.sure_ms, 0, "{polled:?}");
            polled = session.poll_for(1000);
        }
        let told = polled.events.last().expect("a loss");
        assert!(told.contains("lost"), "{told}");
        run(&mut c, &format!("LOCK.RENEW k a{hours}")).refused("NOTHELD");
    }
}

/// The lease ends later by the clock, until it is renewed.
#[test]
fn a_step_back_ends_nothing() {
    let Some(clock) = stepped() else { return };
    let mut c = clock.server.connection();
    let mut session = Session::open(&clock.server);
    let token = session.acquire("k a PX 1000").token;
    clock.step(-AN_HOUR);
    await_renewals(&clock.server, 2);
    assert_eq!(session.poll().grants, 1);
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), token);
    let left = run(&mut c, "PTTL k").int();
    assert!(left <= 1000, "{left}");
}

#[test]
fn a_step_is_no_silence() {
    let Some(clock) = stepped() else { return };
    let mut session = Session::open_on(clock.server.connection(), "TIMEOUT 60000");
    session.acquire("k a PX 600000000");
    for seconds in [AN_HOUR, 0, -AN_HOUR, 0, 2 * AN_HOUR, -2 * AN_HOUR] {
        clock.step(seconds);
        assert_eq!(session.poll().grants, 1);
    }
    assert_eq!(clock.server.count("sessions_silent"), 0);
}
