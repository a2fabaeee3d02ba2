//! A waiter's connection closes in the very tick of the event loop in which it is granted.

use crate::ends::has_it_at_once;
use redis::Connection;
use std::net::{Shutdown, TcpStream};
use testbed::{
    Copies, Expect, Server, Talk, eventually, info, nobody_waits, post, queue, run, stream,
    wait_as, with_threads,
};

const TIMES: usize = 40;

/// A client that waits as `b`, and can be closed for good at a moment of our choice.
fn waits_as_b(server: &Server, c: &mut Connection, lease: &str) -> TcpStream {
    let acquire = format!("LOCK.ACQUIRE k b PX {lease} BLOCK 0");
    let stream = stream(server, &[&acquire]);
    eventually(|| queue(c) == ["b"], "a call to wait");
    stream
}

/// While the server is stopped, the lock is released and the first waiter closes. The server does
/// not know of either until it continues, and then finds them together.
#[track_caller]
fn closes_as_it_is_granted(server: &Server, closes_first: bool, lease: &str) {
    let mut c = server.connection();
    for _ in 0..TIMES {
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let first = waits_as_b(server, &mut c, lease);
        let [mut next] = wait_as(server, ["c"]);
        let close = || first.shutdown(Shutdown::Both).expect("closed");
        server.while_stopped(|| {
            if closes_first {
                close();
            }
            post!(c, "LOCK.RELEASE", "k", "a");
            if !closes_first {
                close();
            }
        });
        has_it_at_once(&mut next);
        assert_eq!(c.receive().int(), 0);
        assert_eq!(info(&mut c).owner, b"c");
        assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
    }
    nobody_waits(server);
}

#[test]
fn the_lock_goes_to_the_next() {
    let (copies, mut c) = Copies::started();
    for closes_first in [false, true] {
        closes_as_it_is_granted(&copies, closes_first, "600000");
        copies.replica_agrees();
    }
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

/// Threads that read for the server find out that a client has closed. Where that is known only
/// after the reply was sent, the lock continues with the end of its lease.
#[test]
fn the_lock_goes_to_the_next_on_a_server_with_threads() {
    let server = with_threads();
    for closes_first in [false, true] {
        closes_as_it_is_granted(&server, closes_first, "100");
    }
}
