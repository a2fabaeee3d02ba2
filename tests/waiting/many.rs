//! Many locks that are due at once: others are served meanwhile.

use std::collections::BTreeSet;

use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually};

use crate::support::{blocked_clients, line, run};

const LOCKS: usize = 1000;
const LISTENERS: usize = 30;

/// Frees locks that are waited for, one call each, and demands that another client is answered again
/// and again before all are handed over.
fn others_are_served(end: impl FnOnce(&mut Connection)) {
    let server = Server::builder()
        .config("maxclients", &(LOCKS + 100).to_string())
        .config("notify-keyspace-events", "KEA")
        .start();
    // A hand-off takes longer so, and all of them more than a few ticks.
    let _listeners: Vec<Connection> = (0..LISTENERS)
        .map(|_| {
            let mut listener = server.connection();
            run(&mut listener, "PSUBSCRIBE *").items();
            listener
        })
        .collect();
    let mut c = server.connection();
    for number in 0..LOCKS {
        run(&mut c, &format!("LOCK.ACQUIRE k{number} a PX 600000")).grant();
    }
    let mut waiters: Vec<Connection> = (0..LOCKS).map(|_| server.connection()).collect();
    for (number, waiter) in waiters.iter_mut().enumerate() {
        waiter.post(&line(&format!("LOCK.ACQUIRE k{number} b BLOCK 0")));
    }
    let count = i64::try_from(LOCKS).unwrap();
    eventually(|| blocked_clients(&server) == count, "all to wait");
    end(&mut c);
    let mut seen = BTreeSet::new();
    loop {
        let handed_over: usize = server.info_field("lock", "lock_hand_offs").parse().unwrap();
        if handed_over == LOCKS {
            break;
        }
        if handed_over > 0 {
            seen.insert(handed_over);
        }
    }
    // Done in one tick of the event loop, it would be seen as none or all.
    assert!(seen.len() >= 2, "looked in between at {seen:?}");
    for waiter in &mut waiters {
        assert_eq!(waiter.receive().grant().owner, b"b");
    }
    eventually(|| blocked_clients(&server) == 0, "nobody to wait");
}

#[test]
fn leases_that_end_together_hold_up_nobody() {
    let leases_end = |c: &mut Connection| {
        let now = cmd!(*c, "TIME").items();
        let seconds: i64 = now.into_iter().next().unwrap().text().parse().unwrap();
        let end = (seconds + 2) * 1000;
        for number in 0..LOCKS {
            run(c, &format!("PEXPIREAT k{number} {end}")).int();
        }
    };
    others_are_served(leases_end);
}

#[test]
fn locks_that_are_deleted_together_hold_up_nobody() {
    let all_go = |c: &mut Connection| run(c, "FLUSHALL").okay();
    others_are_served(all_go);
}
