//! `LOCK.ACQUIRE … HOLDS n`: the call that can be repeated when its reply was lost.

use crate::support::{run, unchanged};
use testbed::{Expect, Server, cmd};

#[test]
fn a_repeated_call_adds_no_second_hold() {
    let server = Server::start();
    let mut c = server.connection();
    for holds in 1..=4 {
        let line = format!("LOCK.ACQUIRE k a HOLDS {holds}");
        let grant = run(&mut c, &line).grant();
        assert_eq!(grant.holds, holds);
        for _ in 0..3 {
            assert_eq!(run(&mut c, &line).grant(), grant);
        }
    }
}

#[test]
fn holds_that_the_caller_counted_on_and_lost_are_told_at_once() {
    let server = Server::start();
    let mut c = server.connection();
    for block in ["", "BLOCK 0", "BLOCK 60000"] {
        let line = |owner, holds| format!("LOCK.ACQUIRE k {owner} HOLDS {holds} {block}");
        for holds in ["2", "3", "2147483647"] {
            unchanged(&mut c, "k", |c| run(c, &line("a", holds))).refused("NOTHELD");
        }
        run(&mut c, "LOCK.ACQUIRE k a").grant();
        for holds in ["3", "4", "2147483647"] {
            unchanged(&mut c, "k", |c| run(c, &line("a", holds))).refused("NOTHELD");
        }
        for holds in ["2", "3", "2147483647"] {
            unchanged(&mut c, "k", |c| run(c, &line("b", holds))).refused("NOTOWNER");
        }
        cmd!(c, "DEL", "k").int();
    }
}

#[test]
fn the_hold_count_stops_at_its_limit() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK._APPLY k a 1 2147483646 60000 -1").okay();
    let last = run(&mut c, "LOCK.ACQUIRE k a HOLDS 2147483647").grant();
    assert_eq!(last.holds, 2_147_483_647);

    for line in [
        "LOCK.ACQUIRE k a",
        "LOCK.ACQUIRE k a TOKEN 1",
        "LOCK.ACQUIRE k a PX 900000",
    ] {
        let error = unchanged(&mut c, "k", |c| run(c, line)).refused("ERR");
        assert!(error.contains("2147483647"), "{error}");
    }
    assert_eq!(
        run(&mut c, "LOCK.ACQUIRE k a HOLDS 2147483647").grant(),
        last
    );
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 2_147_483_646);
    assert_eq!(run(&mut c, "LOCK.ACQUIRE k a").grant(), last);
}
