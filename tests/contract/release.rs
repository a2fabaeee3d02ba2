//! `LOCK.RELEASE`.

use crate::support::run;
use redis::Connection;
use testbed::{Expect, cmd, started};

fn hold(c: &mut Connection, times: usize, lease: &str) -> i64 {
    let line = format!("LOCK.ACQUIRE k a {lease}");
    (0..times).fold(0, |_, _| run(c, &line).grant().token)
}

#[test]
fn each_call_gives_back_one_hold_and_the_last_frees_the_lock() {
    let (_server, mut c) = started();
    hold(&mut c, 3, "");
    for left in [2, 1] {
        assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), left);
        assert_eq!(run(&mut c, "LOCK.INFO k").lock_info().holds, left);
    }
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    assert_eq!(cmd!(c, "EXISTS", "k").int(), 0);
    run(&mut c, "LOCK.ACQUIRE k b").grant();
}
