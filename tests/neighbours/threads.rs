//! Another module's thread that holds the server runs commands.

use crate::support::{is_well, run, start};
use redis::{Connection, Value};
use testbed::{Expect, Server, eventually};

/// The reply to a command that the neighbour runs on a thread of its own.
#[track_caller]
fn on_a_thread(c: &mut Connection, words: &str) -> Value {
    assert_eq!(
        run(c, &format!("NEIGHBOUR.THREAD E {words}")).text(),
        "LATER"
    );
    eventually(
        || run(c, "NEIGHBOUR.CAME").int() == 1,
        "the thread to be done",
    );
    run(c, "NEIGHBOUR.REPLY").value()
}

#[track_caller]
fn removals(server: &Server) -> String {
    server.info_field("lock", "lock_forced_removals")
}

#[test]
fn a_lock_that_a_thread_takes_renews_and_gives_back_is_one_like_any() {
    let (server, mut c) = start();
    assert_eq!(
        on_a_thread(&mut c, "LOCK.ACQUIRE k a PX 600000")
            .grant()
            .owner,
        b"a"
    );
    run(&mut c, "LOCK.ACQUIRE k b").nil();
    on_a_thread(&mut c, "LOCK.RENEW k a").grant();
    let mut waiter = server.connection();
    testbed::post!(waiter, "LOCK.ACQUIRE", "k", "b", "PX", 600_000, "BLOCK", 0);
    eventually(|| testbed::waiters(&mut c, "k") == ["b"], "it to wait");
    assert_eq!(on_a_thread(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(testbed::Talk::receive(&mut waiter).grant().owner, b"b");
    assert_eq!(removals(&server), "0");
    is_well(&server);
}

/// A flush frees values on another thread too, and is over some time.
#[test]
fn a_lock_that_a_thread_deletes_after_a_flush_counts_once() {
    let (server, mut c) = start();
    run(&mut c, "LOCK.ACQUIRE flushed a PX 600000").grant();
    run(&mut c, "FLUSHALL ASYNC").okay();
    eventually(|| removals(&server) == "1", "the flush to be counted");
    for (number, words) in [(2, "DEL k"), (3, "UNLINK k"), (4, "SET k v")] {
        run(&mut c, "DEL k").int();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        on_a_thread(&mut c, words);
        assert_eq!(removals(&server), number.to_string(), "{words}");
    }
    is_well(&server);
}
