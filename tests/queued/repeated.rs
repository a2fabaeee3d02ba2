//! A queued call can be repeated, for instance when its reply was lost.

use crate::support::{granted, hold};
use redis::Value;
use testbed::{Expect, Session, run, waiters};

#[test]
fn it_takes_no_second_place() {
    let (server, mut c, session) = Session::held();
    let words = ["k b", "k c", "k d"];
    for _ in 0..3 {
        for (place, words) in (0..).zip(words) {
            assert_eq!(session.queue(&mut c, words), place);
        }
    }
    assert_eq!(server.count("queued"), 3);
    // From any connection, and the place of the moment.
    run(&mut c, "LOCK.RELEASE k b ALL").int();
    assert_eq!(session.queue(&mut server.connection(), "k d"), 1);
    assert_eq!(waiters(&mut c, "k"), ["c", "d"]);
}

#[test]
fn the_options_of_the_first_call_stay() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    for words in [
        "LOCK.ACQUIRE k b PX 1000 QUEUE 1 SESSION ID HOLDS 1",
        "LOCK.ACQUIRE k b SHARED QUEUE 1 SESSION ID HOLDS 1",
        "LOCK.ACQUIRE k b LIMIT 5 QUEUE 1 SESSION ID HOLDS 1",
    ] {
        assert_eq!(run(&mut c, &session.line(words)).int(), 0, "{words}");
    }
    let fields = run(&mut c, "LOCK.WAITERS k").items().remove(0).fields();
    assert_eq!(fields["left-ms"], Value::Int(-1));
    assert_eq!(fields["limit"], Value::Int(1));
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(session.told(), [granted(&mut c, 1, "k", "b")]);
}

#[test]
fn after_the_grant_it_answers_the_grant() {
    let (server, mut c, mut session) = Session::held();
    session.queue(&mut c, "k b");
    session.stay(&server);
    run(&mut c, "LOCK.RELEASE k a").int();
    let event = granted(&mut c, 1, "k", "b");
    for _ in 0..2 {
        let grant = session.ask(&mut c, "k b").grant();
        assert_eq!((grant.holds, grant.lease), (1, 600_000));
        let same = format!("1 granted k b {} 1 600000 1", grant.token);
        assert_eq!(event, same);
    }
    // The event comes too.
    assert_eq!(session.told(), [event]);
    let polled = session.poll();
    assert_eq!((polled.grants, polled.events), (1, vec![]));
}

/// A call that fell due in between is served first, and then the repeated one is judged.
#[test]
fn on_a_lock_whose_lease_has_just_ended_it_answers_the_grant() {
    let (server, mut c, mut session) = Session::held();
    for number in 1..=10 {
        session.queue(&mut c, "k b");
        session.stay(&server);
        run(&mut c, "LOCK.RENEW k a PX 1").grant();
        std::thread::sleep(std::time::Duration::from_millis(2));
        match session.ask(&mut c, "k b").value() {
            Value::Int(place) => assert_eq!(place, 0),
            grant => assert_eq!(grant.grant().holds, 1),
        }
        assert_eq!(session.told(), [granted(&mut c, number, "k", "b")]);
        session.release(&mut c, "k", "b");
        hold(&mut c, &["k a"]);
    }
}

/// Neither a limit nor a cycle concerns a call that is in line.
#[test]
fn it_is_judged_by_no_limit_and_no_cycle() {
    let (server, mut c, session) = Session::opened();
    hold(&mut c, &["k a", "j b"]);
    session.queue(&mut c, "k b");
    run(&mut c, "CONFIG SET lock.deadlock-detection no").okay();
    session.queue(&mut c, "j a");
    run(&mut c, "CONFIG SET lock.deadlock-detection yes").okay();
    run(&mut c, "CONFIG SET lock.max-waiters 0").okay();
    run(&mut c, "CONFIG SET lock.max-queued 0").okay();
    assert_eq!(session.queue(&mut c, "k b"), 0);
    assert_eq!(session.queue(&mut c, "j a"), 0);
    assert_eq!(server.count("deadlocks"), 0);
}
