//! Another module acts inside an event: of a key that has expired, before the command that opened it continues; of a
//! grant, before whoever is granted it has been answered.

use crate::support::{held, is_well, start};
use redis::Connection;
use testbed::state::unix_ms;
use testbed::{Expect, Server, Talk, at_once, eventually, owner, run, wait_as, waiters};

/// A server on which nothing expires but where it is met.
fn lazy() -> (Server, Connection) {
    let (server, mut c) = start();
    run(&mut c, "DEBUG SET-ACTIVE-EXPIRE 0").okay();
    (server, c)
}

/// Sends this line, which gives `k` 5 ms, and returns when they are over, but nobody has met it.
#[track_caller]
fn let_expire(c: &mut Connection, line: &str) {
    run(c, line).value();
    let end = unix_ms() + 5;
    eventually(|| unix_ms() > end, "its time to be over");
}

#[track_caller]
fn ran(c: &mut Connection) -> i64 {
    run(c, "NEIGHBOUR.RAN").int()
}

const BY_THE_NEIGHBOUR: &str = "NEIGHBOUR.ON expired 1 E LOCK.ACQUIRE % other PX 600000";

/// A lock, and a key of another type: either may have been there.
const ENDED: [&str; 2] = ["LOCK.ACQUIRE k a PX 5", "SET k v PX 5"];

#[test]
fn an_acquire_finds_the_grant_that_was_made_while_it_opened_the_key() {
    for ended in ENDED {
        let (server, mut c) = lazy();
        run(&mut c, BY_THE_NEIGHBOUR).okay();
        let_expire(&mut c, ended);
        run(&mut c, "LOCK.ACQUIRE k b PX 600000").nil();
        assert_eq!((owner(&mut c), ran(&mut c)), ("other".to_owned(), 1));
        assert!(run(&mut c, "PTTL k").int() > 500_000);
        run(&mut c, "LOCK.RELEASE k b").refused("NOTOWNER");
        is_well(&server);
    }
}

#[test]
fn what_another_module_puts_there_is_not_overwritten() {
    for ended in ENDED {
        let (server, mut c) = lazy();
        run(&mut c, "NEIGHBOUR.ON expired 1 E SET % theirs").okay();
        let_expire(&mut c, ended);
        run(&mut c, "LOCK.ACQUIRE k b PX 600000").refused("WRONGTYPE");
        assert_eq!(run(&mut c, "GET k").bytes(), b"theirs");
        is_well(&server);
    }
}

#[test]
fn each_command_is_judged_by_what_is_there_then() {
    for call in [
        "LOCK.RELEASE k b",
        "LOCK.RENEW k b",
        "LOCK.ACQUIRE k b HOLDS 2",
    ] {
        let (server, mut c) = lazy();
        run(&mut c, BY_THE_NEIGHBOUR).okay();
        let_expire(&mut c, "LOCK.ACQUIRE k b PX 5");
        println!("{call}");
        run(&mut c, call).refused("NOTOWNER");
        assert_eq!(owner(&mut c), "other", "{call}");
        is_well(&server);
    }
}

/// The neighbour's call serves those who wait, for nobody slips past them: one, not two.
#[test]
fn of_two_that_wait_one_is_granted() {
    let (server, mut c) = start();
    run(&mut c, BY_THE_NEIGHBOUR).okay();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut waiting = wait_as(&server, ["b", "c"]);
    run(&mut c, "LOCK.RENEW k a PX 50").grant();
    let first = waiting[0].receive().grant();
    assert_eq!((&first.owner[..], first.holds), (&b"b"[..], 1));
    assert_eq!(ran(&mut c), 1);
    assert_eq!(run(&mut c, "LOCK.FENCE k").int(), first.token);
    assert_eq!(waiters(&mut c, "k"), ["c"]);
    run(&mut c, "LOCK.RELEASE k b").int();
    assert_eq!(waiting[1].receive().grant().owner, b"c");
    is_well(&server);
}

/// A neighbour that takes and loses it again and again does not hold the server up.
#[test]
fn one_that_never_lets_go_of_the_moment_does_not_hang_the_server() {
    let (server, mut c) = lazy();
    let line = "NEIGHBOUR.ON expired 1000000 E LOCK.ACQUIRE % other PX 1";
    run(&mut c, line).okay();
    let_expire(&mut c, "LOCK.ACQUIRE k a PX 5");
    for _ in 0..200 {
        run(&mut c, "LOCK.ACQUIRE k b PX 1").value();
    }
    is_well(&server);
}

/// What makes the lock go to the next in line.
const ENDS: [&str; 3] = ["LOCK.RELEASE k a", "DEL k", "PEXPIRE k 1"];

#[test]
fn a_lock_that_is_granted_to_a_client_killed_meanwhile_goes_to_the_next() {
    for end in ENDS {
        let (server, mut c) = held();
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
        let (server, mut c) = held();
        let [mut first, mut second] = wait_as(&server, ["b", "c"]);
        run(&mut c, "NEIGHBOUR.ON lock.acquire 1 E LOCK.RELEASE k b").okay();
        run(&mut c, end).value();
        let (first, second) = (first.granted(), second.granted());
        let owners = [&first.owner[..], &second.owner];
        assert_eq!(owners, [b"b", b"c"], "{end}");
        assert!(first.token < second.token, "{end}");
        assert_eq!(owner(&mut c), "c", "{end}");
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
        let (server, mut c) = held();
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
