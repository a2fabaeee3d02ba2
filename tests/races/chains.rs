//! Several hand-offs before the first reply is written, and two calls of one owner on their way.

use crate::ends::{Together, has_it_at_once, is_closed};
use redis::Value;
use testbed::{Copies, Expect, at_once, eventually, info, queue, run, wait, wait_as};

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
        let held = info(&mut c);
        assert_eq!((held.owner, held.token), (b"d".to_vec(), last));
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
    for reply in at_once(&mut c, &releases) {
        assert_eq!(reply.int(), 0);
    }
    let mut last = 0;
    for mut waiter in waiters {
        let token = waiter.granted().token;
        assert!(token > last, "{token} after {last}");
        last = token;
    }
    assert_eq!(info(&mut c).owner, b"w60");
    copies.agree();
}

/// `b` has two calls with these words on their way, and one of them is killed: the other has the grant, with this many
/// holds in its reply, and one in the lock.
#[test]
fn one_of_two_calls_dies() {
    for (words, which, told) in [("", 0, 2), ("", 1, 1), ("HOLDS 1", 0, 1), ("HOLDS 1", 1, 1)] {
        println!("{words} {which}");
        let (copies, mut c) = Copies::started();
        for together in Together::ALL {
            run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
            let call = format!("k b PX 600000 BLOCK 0 {words}");
            let mut siblings = [(); 2].map(|()| wait(&copies, &call));
            let [mut next] = wait_as(&copies, ["c"]);
            let kill = format!("CLIENT KILL ID {}", siblings[which].id);
            together.send(&mut c, &["LOCK.RELEASE k a", &kill]);
            is_closed(&mut siblings[which]);
            let grant = siblings[1 - which].granted();
            assert_eq!((&grant.owner[..], grant.holds), (&b"b"[..], told));
            eventually(|| info(&mut c).holds == 1, "its hold to be given back");
            let held = info(&mut c);
            assert_eq!((held.owner, held.token), (b"b".to_vec(), grant.token));
            assert_eq!(queue(&mut c), ["c"]);
            copies.replica_agrees();
            assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
            has_it_at_once(&mut next);
            assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0);
        }
        run(&mut c, "LOCK.ACQUIRE k d").grant();
        copies.agree();
    }
}
