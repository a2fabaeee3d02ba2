//! The new owner has two calls on their way, and one of them is killed.

use crate::ends::{Together, has_it_at_once, is_closed};
use testbed::{Copies, Expect, Server, Waiter, eventually, info, queue, run, wait};

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
