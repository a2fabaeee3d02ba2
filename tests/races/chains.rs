//! Several hand-offs before the first reply is written.

use crate::copies::Copies;
use crate::ends::{Together, is_closed};
use crate::support::{info, run, wait, wait_as};
use redis::Value;
use testbed::Expect;

#[test]
fn each_is_told_of_its_grant_when_the_lock_goes_on_at_once() {
    let copies = Copies::start();
    let mut c = copies.connection();
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
    let copies = Copies::start();
    let mut c = copies.connection();
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

#[test]
fn the_give_back_of_a_grant_that_was_released_already_changes_nothing() {
    let copies = Copies::start();
    let mut c = copies.connection();
    for together in Together::ALL {
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let [mut first, mut second] = wait_as(&copies, ["b", "c"]);
        let kill = format!("CLIENT KILL ID {}", first.id);
        together.send(&mut c, &["LOCK.RELEASE k a", "LOCK.RELEASE k b", &kill]);
        is_closed(&mut first);
        let token = second.granted().token;
        run(&mut c, "LOCK.RENEW k c").grant();
        assert_eq!(
            (info(&mut c).owner, info(&mut c).token),
            (b"c".to_vec(), token)
        );
        copies.replica_agrees();
        assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
    }
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    copies.agree();
}

#[test]
fn a_grant_of_the_same_owner_after_that_of_its_dead_call_is_another() {
    let copies = Copies::start();
    let mut c = copies.connection();
    for together in Together::ALL {
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        let [mut first] = wait_as(&copies, ["b"]);
        let kill = format!("CLIENT KILL ID {}", first.id);
        let again = "LOCK.ACQUIRE k b PX 600000";
        let replies = together.send(
            &mut c,
            &["LOCK.RELEASE k a", "LOCK.RELEASE k b", again, &kill],
        );
        is_closed(&mut first);
        let grant = replies[2].clone().grant();
        assert_eq!(run(&mut c, "LOCK.RENEW k b").grant(), grant, "still held");
        copies.replica_agrees();
        assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
    }
    run(&mut c, "LOCK.ACQUIRE k a").grant();
    copies.agree();
}
