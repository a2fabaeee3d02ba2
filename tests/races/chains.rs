//! Several hand-offs before the first reply is written.

use crate::ends::Together;
use redis::Value;
use testbed::{Copies, Expect, info, run, wait, wait_as};

#[test]
fn each_is_told_of_its_grant_when_the_lock_goes_on_at_once() {
    let (copies, mut c) = Copies::started();
    for together in Together::ALL {
        let mut last = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant().token;
        let waiters = wait_as(&copies, ["b", "c", "d"]);
        let releases = ["LOCK.RELEASE k a", "LOCK.RELEASE k b", "LOCK.RELEASE k c"];
        assert_eq!(together.send(&mut c, &releases), vec![Value::Int(0); 3]);
        for mut waiter in waiters {
            let token = waiter.granted().token;
            assert!(token > last, "{token} after {last}");
            last = token;
        }
        assert_eq!(
            (info(&mut c).owner, info(&mut c).token),
            (b"d".to_vec(), last)
        );
        copies.replica_agrees();
        assert_eq!(run(&mut c, "LOCK.RELEASE k d").int(), 0);
    }
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    copies.agree();
}

#[test]
fn a_long_chain_goes_through_in_one_write() {
    let (copies, mut c) = Copies::started();
    run(&mut c, "LOCK.ACQUIRE k w0 PX 600000").grant();
    let waiters: Vec<_> = (1..=60)
        .map(|n| wait(&copies, &format!("k w{n} PX 600000 BLOCK 0")))
        .collect();
    let releases: Vec<_> = (0..60).map(|n| format!("LOCK.RELEASE k w{n}")).collect();
    let lines: Vec<_> = releases.iter().map(String::as_str).collect();
    let replies = Together::Pipeline.send(&mut c, &lines);
    assert_eq!(replies, vec![Value::Int(0); 60]);
    let tokens: Vec<_> = waiters
        .into_iter()
        .map(|mut waiter| waiter.granted().token)
        .collect();
    assert!(
        tokens.is_sorted_by(|before, after| before < after),
        "{tokens:?}"
    );
    assert_eq!(info(&mut c).owner, b"w60");
    copies.agree();
}
