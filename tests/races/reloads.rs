//! The data are loaded anew under the waiters.

use crate::ends::has_it_at_once;
use crate::support::{info, nobody_waits, queue, run, wait_as};
use testbed::{Expect, Server, cmd};

#[track_caller]
fn waiters_stay_over(reload: &str) {
    let server = Server::builder().config("appendonly", "yes").start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut first, mut second, mut third] = wait_as(&server, ["b", "c", "d"]);
    cmd!(c, "DEBUG", reload).okay();
    assert_eq!(queue(&mut c), ["b", "c", "d"]);
    assert_eq!(info(&mut c).owner, b"a");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    has_it_at_once(&mut first);
    // Freed in the same write: what is loaded knows nothing of it.
    cmd!(c, "PEXPIRE", "k", 60).int();
    cmd!(c, "DEBUG", reload).okay();
    has_it_at_once(&mut second);
    cmd!(c, "DEBUG", reload).okay();
    cmd!(c, "DEL", "k").int();
    has_it_at_once(&mut third);
    nobody_waits(&server);
}

#[test]
fn waiters_stay_over_a_reload_of_the_snapshot() {
    waiters_stay_over("RELOAD");
}

#[test]
fn waiters_stay_over_a_reload_of_the_append_only_file() {
    waiters_stay_over("LOADAOF");
}
