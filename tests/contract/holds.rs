//! `LOCK.ACQUIRE … HOLDS n`: the call that can be repeated when its reply was lost.

use crate::support::run;
use testbed::{Expect, started};

#[test]
fn a_repeated_call_adds_no_second_hold() {
    let (_server, mut c) = started();
    for holds in 1..=4 {
        let line = format!("LOCK.ACQUIRE k a HOLDS {holds}");
        let grant = run(&mut c, &line).grant();
        assert_eq!(grant.holds, holds);
        for _ in 0..3 {
            assert_eq!(run(&mut c, &line).grant(), grant);
        }
    }
}
