//! Waits that end before their turn.

use std::time::Duration;
use testbed::{
    Expect, Talk, cmd, eventually, held, info, line, nobody_waits, queue, run, server_cpu,
    unblocks, wait, wait_as,
};

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
    let least = token + 1_499_000;
    assert!(next.token >= least, "before the lease had ended");
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
    let most = short * 5 + Duration::from_millis(5);
    assert!(long < most, "{short:?}, {long:?}");
}

#[test]
fn unblocking_ends_a_wait_where_the_server_can_do_that_safely() {
    testbed::needs!(unblocks());
    let (server, mut c) = held();
    let [mut one, mut two, mut three, mut last] = wait_as(&server, ["b", "c", "d", "e"]);
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", two.id).int(), 1);
    two.receive().nil();
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", one.id, "TIMEOUT").int(), 1);
    one.receive().nil();
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", three.id, "ERROR").int(), 1);
    three.receive().refused("UNBLOCKED");
    assert_eq!(queue(&mut c), ["e"]);
    // They go on as any client.
    for waiter in [&mut one, &mut two, &mut three] {
        run(waiter, "PING").value();
        run(waiter, "LOCK.ACQUIRE k late BLOCK 1").nil();
    }
    assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", one.id).int(), 0);
    run(&mut c, "LOCK.RELEASE k a").int();
    last.granted();
    nobody_waits(&server);
}

#[test]
fn an_older_server_cannot_unblock_and_the_waiter_stays() {
    testbed::needs!(!unblocks());
    let (server, mut c) = held();
    let [mut waiter] = wait_as(&server, ["b"]);
    for how in [&["TIMEOUT"][..], &["ERROR"], &[]] {
        assert_eq!(cmd!(c, "CLIENT", "UNBLOCK", waiter.id, how).int(), 0);
    }
    assert_eq!(queue(&mut c), ["b"]);
    assert!(waiter.is_blocked(&mut c));
    run(&mut c, "LOCK.RELEASE k a").int();
    waiter.granted();
    run(&mut waiter, "PING").value();
}
