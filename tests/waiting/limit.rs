//! How many may wait: `lock.max-waiters`; and what there may be none of: tokens.

use crate::support::{nobody_waits, queue, run, wait, wait_as};
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually};

const JOIN: &str = "LOCK.ACQUIRE k late BLOCK 0";

fn with_limit(limit: u32) -> (Server, Connection) {
    let server = Server::builder()
        .config("lock.max-waiters", &limit.to_string())
        .start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    (server, c)
}

#[test]
fn one_more_than_may_wait_is_refused() {
    let (server, mut c) = with_limit(2);
    let [mut first, second] = wait_as(&server, ["b", "c"]);
    run(&mut c, JOIN).refused("MAXWAITERS");
    assert_eq!(queue(&mut c), ["b", "c"]);
    // Without BLOCK nobody wants to wait.
    run(&mut c, "LOCK.ACQUIRE k late").nil();
    // A place that becomes free can be taken.
    run(&mut c, "LOCK.RELEASE k a").int();
    first.granted();
    let late = wait(&server, "k late BLOCK 0");
    run(&mut c, JOIN).refused("MAXWAITERS");
    drop((second, late));
    nobody_waits(&server);
    let _last = wait(&server, "k late BLOCK 0");
}

#[test]
fn the_limit_is_one_for_each_key_and_database() {
    let (server, mut c) = with_limit(1);
    run(&mut c, "LOCK.ACQUIRE j a PX 600000").grant();
    let _of_k = wait(&server, "k b BLOCK 0");
    let _of_j = wait(&server, "j b BLOCK 0");
    run(&mut c, JOIN).refused("MAXWAITERS");
    run(&mut c, "SELECT 4").okay();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    cmd!(c, "LOCK.ACQUIRE", "k", "b", "BLOCK", 20).nil();
}

#[test]
fn with_a_limit_of_none_nobody_waits() {
    let (server, mut c) = with_limit(0);
    run(&mut c, JOIN).refused("MAXWAITERS");
    // What needs no waiting is granted.
    assert_eq!(run(&mut c, "LOCK.ACQUIRE k a BLOCK 0").grant().holds, 2);
    run(&mut c, "DEL k").int();
    run(&mut c, JOIN).grant();
    nobody_waits(&server);
}

#[test]
fn a_limit_set_while_some_wait_holds_for_those_who_come() {
    let (server, mut c) = with_limit(10);
    let mut waiters = wait_as(&server, ["b", "c", "d"]);
    run(&mut c, "CONFIG SET lock.max-waiters 1").okay();
    run(&mut c, JOIN).refused("MAXWAITERS");
    assert_eq!(queue(&mut c), ["b", "c", "d"], "those who wait stay");
    for (waiter, before) in waiters.iter_mut().zip(["a", "b", "c"]) {
        cmd!(c, "LOCK.RELEASE", "k", before).int();
        waiter.granted();
    }
    let late = wait(&server, "k late BLOCK 0");
    run(&mut c, JOIN).refused("MAXWAITERS");
    run(&mut c, "CONFIG SET lock.max-waiters 2").okay();
    let _later = wait(&server, "k later BLOCK 0");
    run(&mut c, JOIN).refused("MAXWAITERS");
    drop(late);
    eventually(|| queue(&mut c) == ["later"], "the first to be gone");
}

#[test]
fn a_refusal_for_lack_of_room_is_the_last_that_is_judged() {
    let (_server, mut c) = with_limit(0);
    run(&mut c, "LOCK.ACQUIRE k b BLOCK 0 HOLDS 2").refused("NOTOWNER");
    run(&mut c, "LOCK.ACQUIRE k b BLOCK 0 TOKEN 1").refused("NOTOWNER");
    run(&mut c, "LOCK.ACQUIRE k b BLOCK -1").refused("ERR");
    run(&mut c, "SET text value").okay();
    run(&mut c, "LOCK.ACQUIRE text b BLOCK 0").refused("WRONGTYPE");
    let errors = run(&mut c, "INFO errorstats").text();
    assert!(!errors.contains("MAXWAITERS"), "{errors}");
    run(&mut c, JOIN).refused("MAXWAITERS");
    let errors = run(&mut c, "INFO errorstats").text();
    assert!(errors.contains("errorstat_MAXWAITERS:count=1"), "{errors}");
}

#[test]
fn when_no_token_is_left_nobody_who_waits_is_granted_one() {
    const HIGHEST_TOKEN: i64 = (1 << 53) - 1;
    for freed in ["LOCK.RELEASE k a", "DEL k", "PEXPIRE k 30"] {
        let (server, mut c) = with_limit(10);
        let waiters = wait_as(&server, ["b", "b", "c"]);
        cmd!(c, "LOCK._CLOCK", HIGHEST_TOKEN).okay();
        run(&mut c, freed).value();
        for mut waiter in waiters {
            let error = waiter.receive().refused("ERR");
            assert!(error.contains("token"), "{error}");
        }
        run(&mut c, "LOCK.INFO k").nil();
        nobody_waits(&server);
    }
}
