//! Several hand-offs before the first reply is written, and two calls of one owner on their way.

use crate::ends::{Together, has_it_at_once, is_closed};
use redis::Value;
use testbed::{Copies, Expect, Server, Waiter, eventually, info, queue, run, wait, wait_as};

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

/// Two calls of `b` with these words behind them, and one of `c`, wait for what `a` holds.
struct Line {
    siblings: [Waiter; 2],
    next: Waiter,
}

fn line_up(server: &Server, words: &str) -> Line {
    run(&mut server.connection(), "LOCK.ACQUIRE k a PX 600000").grant();
    let call = || wait(server, &format!("k b PX 600000 BLOCK 0 {words}"));
    let siblings = [call(), call()];
    let next = wait(server, "k c PX 600000 BLOCK 0");
    Line { siblings, next }
}

/// One of the two is killed: the other has the grant, with this many holds in its reply, and one in
/// the lock.
#[track_caller]
fn one_dies(words: &str, which: usize, told: i64) {
    let (copies, mut c) = Copies::started();
    for together in Together::ALL {
        let Line {
            mut siblings,
            mut next,
        } = line_up(&copies, words);
        let kill = format!("CLIENT KILL ID {}", siblings[which].id);
        together.send(&mut c, &["LOCK.RELEASE k a", &kill]);
        is_closed(&mut siblings[which]);
        let grant = siblings[1 - which].granted();
        assert_eq!((&grant.owner[..], grant.holds), (&b"b"[..], told));
        eventually(
            || info(&mut c).holds == 1,
            "the dead call's hold to be given back",
        );
        assert_eq!(
            (info(&mut c).owner, info(&mut c).token),
            (b"b".to_vec(), grant.token)
        );
        assert_eq!(queue(&mut c), ["c"]);
        copies.replica_agrees();
        assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
        has_it_at_once(&mut next);
        assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
    }
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

#[test]
fn one_of_two_calls_dies() {
    for (words, which, told) in [("", 0, 2), ("", 1, 1), ("HOLDS 1", 0, 1), ("HOLDS 1", 1, 1)] {
        println!("{words} {which}");
        one_dies(words, which, told);
    }
}
