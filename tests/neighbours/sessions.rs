//! Sessions beside another module.

use crate::support::{is_well, run, start};
use testbed::{Expect, Talk};

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
    assert_eq!(server.info_field("lock", "lock_sessions"), "1");
    is_well(&server);
}

/// A listener takes the lock from a queued call whose grant it is told of.
#[test]
fn the_session_is_told_of_the_grant_before_its_loss() {
    let (server, mut c) = start();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut polling = server.connection();
    let id = run(&mut polling, "LOCK.SESSION OPEN").int();
    let words = format!("LOCK.ACQUIRE k b PX 600000 QUEUE 0 SESSION {id} HOLDS 1");
    assert_eq!(run(&mut c, &words).int(), 0);
    run(&mut c, "NEIGHBOUR.ON lock.acquire 1 E DEL k").okay();
    run(&mut c, "LOCK.RELEASE k a").int();
    let mut reply = run(&mut polling, &format!("LOCK.SESSION POLL {id}")).fields();
    let events = reply.remove("events").expect("events").items().into_iter();
    let kinds: Vec<_> = events
        .map(|event| event.items()[1].clone().text())
        .collect();
    assert_eq!(kinds, ["granted", "lost"]);
    is_well(&server);
}
