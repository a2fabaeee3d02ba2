//! Sessions beside another module.

use crate::support::{is_well, start};
use testbed::{Expect, Session, Talk, run};

/// Such a call has no connection that could poll.
#[test]
fn a_call_of_another_module_opens_and_polls_no_session() {
    let (server, mut c) = start();
    let session = run(&mut c, "LOCK.SESSION OPEN").int();
    for format in ["", "E", "!E", "CE", "SE", "3E"] {
        for words in [
            "LOCK.SESSION OPEN".to_owned(),
            format!("LOCK.SESSION POLL {session}"),
            format!("LOCK.SESSION POLL {session} BLOCK 100"),
        ] {
            let mut call = redis::cmd("NEIGHBOUR.CALL");
            call.arg(format).arg(testbed::words(&words));
            let refused = c.send(&call).reply();
            assert!(refused.is_err(), "{format} {words}: {refused:?}");
        }
    }
    assert_eq!(server.count("sessions"), 1);
    is_well(&server);
}

/// A listener takes the lock from a queued call whose grant it is told of.
#[test]
fn the_session_is_told_of_the_grant_before_its_loss() {
    let (server, mut c) = start();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut session = Session::open(&server);
    assert_eq!(session.queue(&mut c, "k b"), 0);
    run(&mut c, "NEIGHBOUR.ON lock.acquire 1 E DEL k").okay();
    run(&mut c, "LOCK.RELEASE k a").int();
    let events = session.poll().events;
    assert_eq!(events.len(), 2, "{events:?}");
    assert!(events[0].starts_with("1 granted k b "), "{events:?}");
    assert!(events[1].starts_with("2 lost k b "), "{events:?}");
    is_well(&server);
}
