//! Another module acts inside the event of a grant, before whoever is granted it has been answered.

use crate::support::{is_well, start};
use testbed::{Expect, Talk, at_once, run, wait_as};

/// What makes the lock go to the next in line.
const ENDS: [&str; 3] = ["LOCK.RELEASE k a", "DEL k", "PEXPIRE k 1"];

#[test]
fn a_lock_that_is_granted_to_a_client_killed_meanwhile_goes_to_the_next() {
    for end in ENDS {
        let (server, mut c) = start();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let [killed, mut next] = wait_as(&server, ["b", "c"]);
        let kill = format!("CLIENT KILL ID {}", killed.id);
        run(&mut c, &format!("NEIGHBOUR.ON lock.acquire 1 E {kill}")).okay();
        run(&mut c, end).value();
        assert_eq!(next.receive().grant().owner, b"c", "{end}");
        assert_eq!(run(&mut c, "NEIGHBOUR.RAN").int(), 1, "{end}");
        is_well(&server);
    }
}

/// The neighbour gives back what was granted to the first; the second is granted it then, and may die.
#[test]
fn a_grant_inside_the_event_of_another_is_told_to_the_right_one() {
    for end in ENDS {
        let (server, mut c) = start();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let [mut first, mut second] = wait_as(&server, ["b", "c"]);
        run(&mut c, "NEIGHBOUR.ON lock.acquire 1 E LOCK.RELEASE k b").okay();
        run(&mut c, end).value();
        let (first, second) = (first.receive().grant(), second.receive().grant());
        assert_eq!(
            (&first.owner[..], &second.owner[..]),
            (&b"b"[..], &b"c"[..]),
            "{end}"
        );
        assert!(first.token < second.token, "{end}");
        assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().owner, b"c", "{end}");
        is_well(&server);
    }
}

/// An owner's own call is answered; that tells nothing of a grant that another one got meanwhile.
#[test]
fn a_call_that_is_answered_is_not_taken_for_one_that_waited() {
    let calls = [
        "LOCK.ACQUIRE k a",
        "LOCK.RENEW k a PX 500000",
        "LOCK.RELEASE k a HOLDS 1",
    ];
    for call in calls {
        let (server, mut c) = start();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let [waiter, mut next] = wait_as(&server, ["b", "c"]);
        let event = call.split(' ').next().expect("a command").to_lowercase();
        let on = format!("NEIGHBOUR.ON {event} 1 E LOCK.RELEASE k a ALL");
        run(&mut c, &on).okay();
        // Its client goes in the tick in which it is granted the lock.
        let kill = format!("CLIENT KILL ID {}", waiter.id);
        for reply in at_once(&mut c, &[call, &kill]) {
            reply.value();
        }
        assert_eq!(next.receive().grant().owner, b"c", "{call}");
        drop(waiter);
        is_well(&server);
    }
}
