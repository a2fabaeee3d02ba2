//! Waits that end before their turn.

use std::time::Duration;
use testbed::{Expect, Talk, cmd, eventually, held, info, line, run, server_cpu, wait, wait_as};

/// The reply was sent: what its client does with it is its own affair until the lease ends.
#[test]
fn a_grant_that_was_delivered_stays_when_its_client_closes() {
    let (server, mut c) = held();
    let mut first = wait(&server, "k b PX 1500 BLOCK 0");
    let [mut second] = wait_as(&server, ["c"]);
    run(&mut c, "LOCK.RELEASE k a").int();
    let token = first.granted().token;
    drop(first);
    let held = info(&mut c);
    assert_eq!((&held.owner[..], held.token), (&b"b"[..], token));
    let next = second.granted();
    // The server keeps the end of a lease in whole milliseconds, the token is more exact.
    assert!(
        next.token >= token + 1_499_000,
        "before the lease had ended"
    );
}

/// Commands by the queue's length: the time that the server needs to take one out of its middle.
#[test]
fn leaving_costs_the_same_in_a_long_queue() {
    const CALLS: usize = 200;
    let (server, mut c) = held();
    let mut cost_behind = |crowd: usize| {
        let mut waiters: Vec<_> = (0..crowd)
            .map(|n| {
                let mut waiter = server.connection();
                waiter.post(&line(&format!("LOCK.ACQUIRE k w{n} BLOCK 0")));
                waiter
            })
            .collect();
        let all = i64::try_from(crowd).expect("small");
        eventually(|| info(&mut c).waiters == all, "all to wait");
        let before = server_cpu(server.pid());
        for n in 0..CALLS {
            let owner = format!("w{}", crowd / 2 + n - CALLS / 2);
            assert_eq!(cmd!(c, "LOCK.RELEASE", "k", owner, "ALL").int(), 0);
        }
        let used = server_cpu(server.pid()).saturating_sub(before);
        for waiter in &mut waiters {
            waiter.post(&line("PING"));
        }
        drop(waiters);
        eventually(|| info(&mut c).waiters == 0, "all to be gone");
        used
    };
    let (short, long) = (cost_behind(CALLS), cost_behind(4000));
    println!("{CALLS} of a queue called off: {short:?} of {CALLS} waiters, {long:?} of 4000");
    assert!(
        long < short * 5 + Duration::from_millis(5),
        "{short:?}, {long:?}"
    );
}
