//! Another module's thread that holds the server runs commands.

use crate::support::{is_well, start};
use redis::{Connection, Value};
use testbed::{Expect, eventually, run, wait_as};

/// The reply to a command that the neighbour runs on a thread of its own.
#[track_caller]
fn on_a_thread(c: &mut Connection, words: &str) -> Value {
    let reply = run(c, &format!("NEIGHBOUR.THREAD E {words}"));
    assert_eq!(reply.text(), "LATER");
    eventually(|| run(c, "NEIGHBOUR.CAME").int() == 1, words);
    run(c, "NEIGHBOUR.REPLY").value()
}

#[test]
fn a_lock_that_a_thread_takes_renews_and_gives_back_is_one_like_any() {
    let (server, mut c) = start();
    let grant = on_a_thread(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    assert_eq!(grant.owner, b"a");
    run(&mut c, "LOCK.ACQUIRE k b").nil();
    on_a_thread(&mut c, "LOCK.RENEW k a").grant();
    let [mut waiter] = wait_as(&server, ["b"]);
    assert_eq!(on_a_thread(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(waiter.granted().owner, b"b");
    assert_eq!(server.count("forced_removals"), 0);
    is_well(&server);
}

/// A flush frees values on another thread too, and is over some time.
#[test]
fn a_lock_that_a_thread_deletes_after_a_flush_counts_once() {
    let (server, mut c) = start();
    run(&mut c, "LOCK.ACQUIRE flushed a PX 600000").grant();
    run(&mut c, "FLUSHALL ASYNC").okay();
    eventually(
        || server.count("forced_removals") == 1,
        "the flush to be counted",
    );
    for (number, words) in [(2, "DEL k"), (3, "UNLINK k"), (4, "SET k v")] {
        run(&mut c, "DEL k").int();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        on_a_thread(&mut c, words);
        assert_eq!(server.count("forced_removals"), number, "{words}");
    }
    is_well(&server);
}
