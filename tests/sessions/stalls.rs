//! While nothing may be written nothing is renewed, and after that, or a stall, at once. Steps of the wall clock, by
//! libfaketime, where it is.

use std::thread::sleep;
use std::time::Duration;
use testbed::clock::SteppedClock;
use testbed::state::{deadline, unix_ms};
use testbed::{
    Expect, Load, Server, Session, Talk, at_once, await_renewals, eventually, line, run,
    transaction,
};

/// A renewal that was due in a pause comes at once afterwards.
#[test]
fn after_a_pause_of_writes() {
    let (server, mut c, mut session) = Session::opened();
    session.acquire("k a PX 3000");
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    let end = deadline(&mut c, "k");
    sleep(Duration::from_millis(1300));
    assert_eq!(deadline(&mut c, "k"), end, "renewed");
    // What is left is told meanwhile.
    let sure = session.poll_for(50).sure_ms;
    assert!((1..1900).contains(&sure), "{sure}");
    let load = Load::on(&server);
    run(&mut c, "CLIENT UNPAUSE").okay();
    let ended = unix_ms();
    eventually(|| deadline(&mut c, "k") != end, "the renewal");
    let after = deadline(&mut c, "k") - 3000 - ended;
    assert!((-60..400 + load.so_far_ms()).contains(&after), "{after}");
    assert_eq!(session.poll().grants, 1);
}

#[test]
fn after_a_stall_what_is_still_held_is_renewed() {
    let (server, mut c, mut session) = Session::opened();
    let mut lost = Session::open(&server);
    for n in 0..200 {
        session.acquire(&format!("k{n} a PX {}", 2600 + (n % 7) * 300));
    }
    lost.acquire("lost a PX 1000");
    let mut thief = server.connection();
    server.while_stopped(|| {
        sleep(Duration::from_millis(1500));
        thief.post(&line("LOCK.ACQUIRE k0 thief"));
    });
    thief.receive().nil();
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (200, vec![]));
    assert!(polled.sure_ms > 2000, "{}", polled.sure_ms);
    assert_eq!(lost.poll().events.len(), 1);
    assert!(run(&mut c, "PTTL k0").int() > 2000);
}

/// Though another grant has been due for longer.
#[test]
fn after_a_stall_the_nearest_end_comes_first() {
    let server = Server::builder().config("appendonly", "yes").start();
    let mut session = Session::open(&server);
    let lines = [
        "LOCK.ACQUIRE long a PX 9000 SESSION ID",
        "DEBUG SLEEP 1.2",
        "LOCK.ACQUIRE short a PX 6000 SESSION ID",
        "DEBUG SLEEP 2.2",
    ]
    .map(|words| session.line(words));
    assert_eq!(transaction(&mut session, &lines).len(), 4);
    eventually(|| server.count("session_renewals") >= 2, "the renewals");
    let effects = server
        .aof()
        .into_iter()
        .filter(|words| words[0].eq_ignore_ascii_case(b"LOCK._APPLY"));
    let keys: Vec<_> = effects.map(|words| words[1].clone()).collect();
    assert_eq!(keys, [&b"long"[..], b"short", b"short", b"long"]);
}

/// Before a LOCK command on it, in the very batch in which the slow command ends.
#[test]
fn what_is_due_is_renewed_before_a_command_on_it() {
    let (server, mut c, mut session) = Session::opened();
    session.acquire("k a PX 3000");
    let lines = ["DEBUG SLEEP 1.8", "LOCK.ACQUIRE k b", "PTTL k"];
    let replies = transaction(&mut c, &lines);
    replies[1].clone().nil();
    let left = replies[2].clone().int();
    assert!(left > 2500, "{left}");
    for look in ["LOCK.INFO k", "LOCK.HOLDERS k"] {
        let renewals = server.count("session_renewals");
        let mut replies = at_once(&mut c, &["DEBUG SLEEP 1.8", look, "INFO lock"]);
        let section = replies.pop().expect("three replies").text();
        let renewed = format!("lock_session_renewals:{}", renewals + 1);
        assert!(section.contains(&renewed), "{section}");
    }
}

/// A lease that ends in a pause is told while that lasts.
#[test]
fn a_lease_that_ends_in_a_pause_is_told() {
    let (_server, mut c, mut session) = Session::opened();
    let token = session.acquire("k a PX 1000").token;
    run(&mut c, "CLIENT PAUSE 60000 WRITE").okay();
    let mut events = Vec::new();
    while events.is_empty() {
        events = session.poll_for(60_000).events;
    }
    assert_eq!(events, [format!("1 lost k a {token} expired")]);
    assert_eq!(session.poll().grants, 0);
    run(&mut c, "CLIENT UNPAUSE").okay();
    eventually(|| run(&mut c, "EXISTS k").int() == 0, "the key to go");
    assert_eq!(session.poll().events, Vec::<String>::new());
}

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
