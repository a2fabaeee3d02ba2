//! No call has room beyond `lock.max-holders`.

use crate::holders::{enter, shared};
use testbed::{Expect, Server, owners, queue, run, wait};

#[test]
fn nobody_has_room_beyond_it() {
    let server = Server::builder().config("lock.max-holders", "2").start();
    let mut c = server.connection();
    for owner in ["a", "b"] {
        enter(&mut c, &format!("{owner} SHARED"));
    }
    run(&mut c, "LOCK.ACQUIRE k d SHARED").nil();
    run(&mut c, "LOCK.ACQUIRE k d LIMIT 900").nil();
    // Who holds it already needs no room.
    assert_eq!(enter(&mut c, "a SHARED").holds, 2);
    let mut next = wait(&server, "k d SHARED PX 600000 BLOCK 0");
    run(&mut c, "LOCK.RELEASE k b").int();
    next.granted();
    assert_eq!(owners(&mut c), ["a", "d"]);
}

#[test]
fn a_lower_bound_puts_nobody_out() {
    let (server, mut c, _) = shared(["a", "b", "d"], "SHARED");
    run(&mut c, "CONFIG SET lock.max-holders 1").okay();
    assert_eq!(owners(&mut c), ["a", "b", "d"]);
    assert_eq!(enter(&mut c, "b SHARED").holds, 2);
    let _next = wait(&server, "k e SHARED BLOCK 0");
    for owner in ["a", "d"] {
        run(&mut c, &format!("LOCK.RELEASE k {owner}")).int();
        assert_eq!(queue(&mut c), ["e"]);
    }
    run(&mut c, "LOCK.RELEASE k b ALL").int();
    assert_eq!(owners(&mut c), ["e"]);
}

#[test]
fn it_bounds_no_file_and_no_replica() {
    let (mut server, mut c, _) = shared(["a", "b", "d"], "SHARED");
    run(&mut c, "CONFIG SET lock.max-holders 1").okay();
    let replica = server.replica_with(|settings| settings.config("lock.max-holders", "1"));
    assert_eq!(owners(&mut replica.connection()), ["a", "b", "d"]);
    run(&mut c, "CONFIG REWRITE").okay();
    run(&mut c, "SAVE").okay();
    drop(replica);
    server.restart();
    assert_eq!(owners(&mut server.connection()), ["a", "b", "d"]);
}
