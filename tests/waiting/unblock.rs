//! `CLIENT UNBLOCK`.

use testbed::{Expect, Talk, cmd, held, nobody_waits, queue, run, unblocks, wait_as};

#[test]
fn unblocking_ends_a_wait_where_the_server_can_do_that_safely() {
    if !unblocks() {
        return;
    }
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
    if unblocks() {
        return;
    }
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
