//! How long locks are held and waited for, as `INFO lock` tells it.

use crate::support::section;
use redis::Connection;
use testbed::{Expect, Talk, eventually, held, run, wait};

/// p50, p99 and MAX.
#[track_caller]
fn times(c: &mut Connection, what: &str) -> [i64; 3] {
    let fields = section(c);
    ["p50", "p99", "max"].map(|part| fields[&format!("{what}_ms_{part}")])
}

/// Waits until the grant has stood so long.
#[track_caller]
fn hold(c: &mut Connection, key: &str, ms: i64) {
    let info = format!("LOCK.INFO {key}");
    eventually(
        || run(c, &info).lock_info().held_ms >= ms,
        "some time to pass",
    );
}

#[test]
fn a_hold_is_recorded_when_the_grant_ends() {
    let (_server, mut c) = held();
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    hold(&mut c, "k", 40);
    run(&mut c, "LOCK.RELEASE k a").int();
    assert_eq!(times(&mut c, "hold"), [0; 3], "a hold is left");
    let held_ms = run(&mut c, "LOCK.INFO k").lock_info().held_ms;
    run(&mut c, "LOCK.RELEASE k a").int();
    let [half, most, longest] = times(&mut c, "hold");
    assert!(longest >= held_ms && longest < held_ms + 5000, "{longest}");
    assert_eq!((half, most), (longest, longest), "of one");
    // Many short ones: half of the times are short, the longest stays.
    for _ in 0..150 {
        run(&mut c, "LOCK.ACQUIRE k a").grant();
        run(&mut c, "LOCK.RELEASE k a").int();
    }
    let [half, most, still] = times(&mut c, "hold");
    assert!(half < held_ms && half <= most && most <= still);
    assert_eq!(still, longest);
    assert_eq!(times(&mut c, "wait"), [0; 3], "nobody waited");
}

#[test]
fn a_wait_is_recorded_however_it_ends() {
    for end in ["granted", "time-out", "given up"] {
        let (server, mut c) = held();
        if end == "time-out" {
            let mut waiter = server.connection();
            run(&mut waiter, "LOCK.ACQUIRE k b BLOCK 30").nil();
        } else {
            let mut waiter = wait(&server, "k b BLOCK 0");
            let so_far = |c: &mut Connection| {
                let queue = run(c, "LOCK.WAITERS k").items();
                queue[0].clone().fields()["waited-ms"].clone().int()
            };
            eventually(|| so_far(&mut c) >= 30, "a long wait");
            assert_eq!(times(&mut c, "wait"), [0; 3], "it continues");
            let line = if end == "granted" {
                "LOCK.RELEASE k a"
            } else {
                "LOCK.RELEASE k b ALL"
            };
            run(&mut c, line).int();
            waiter.receive().value();
        }
        let [half, most, longest] = times(&mut c, "wait");
        assert!((30..5000).contains(&longest), "{end}: {longest}");
        assert_eq!((half, most), (longest, longest), "{end}");
    }
}
