//! Where several errors would apply to a queued call, the first of the contract's order wins.

use crate::support::hold;
use testbed::{Expect, Session, run};

#[test]
fn the_first_of_the_order_wins() {
    let (server, mut c, session) = Session::opened();
    run(&mut c, "SET string v").okay();
    hold(&mut c, &["k a", "mine b", "two a SHARED", "two b SHARED"]);
    // `a` waits for what `b` has, so `b` would close a cycle by waiting for `k`.
    session.queue(&mut c, "mine a");
    run(&mut c, "CONFIG SET lock.max-waiters 0").okay();
    for (words, code) in [
        ("string b QUEUE x SESSION 7 HOLDS 1", "ERR"),
        ("string b QUEUE 0 SESSION 7", "ERR"),
        ("string b QUEUE 0 SESSION 7 HOLDS 1 PX 999", "ERR"),
        ("string b QUEUE 0 SESSION 7 HOLDS 1", "NOSESSION"),
        ("free b QUEUE 0 SESSION 7 HOLDS 2", "NOSESSION"),
        ("string b QUEUE 0 SESSION ID HOLDS 2", "WRONGTYPE"),
        ("free b QUEUE 0 SESSION ID HOLDS 2", "NOTHELD"),
        ("mine b QUEUE 0 SESSION ID HOLDS 3", "NOTHELD"),
        ("k b QUEUE 0 SESSION ID HOLDS 2", "NOTOWNER"),
        ("two b QUEUE 0 SESSION ID HOLDS 2", "NOTALONE"),
        ("k b QUEUE 0 SESSION ID HOLDS 1", "MAXWAITERS"),
    ] {
        let words = session.line(&format!("LOCK.ACQUIRE {words}"));
        run(&mut c, &words).refused(code);
    }
    run(&mut c, "CONFIG SET lock.max-waiters 10").okay();
    run(&mut c, "CONFIG SET lock.max-queued 0").okay();
    session.ask(&mut c, "k b").refused("MAXWAITERS");
    run(&mut c, "CONFIG SET lock.max-queued 10").okay();
    session.ask(&mut c, "k b").refused("DEADLOCK");
    assert_eq!(server.count("queued"), 1);
    assert_eq!(session.number(&mut c, "events"), 0);
}

/// What depends on the lock's state comes last.
#[test]
fn a_default_lease_that_is_too_short_comes_last() {
    let (_server, mut c, session) = Session::opened();
    run(&mut c, "CONFIG SET lock.default-lease-ms 500").okay();
    for (words, code) in [
        ("free b QUEUE 0 SESSION ID HOLDS 2", "NOTHELD"),
        ("free b QUEUE 0 SESSION ID HOLDS 1", "ERR"),
    ] {
        let words = session.line(&format!("LOCK.ACQUIRE {words}"));
        run(&mut c, &words).refused(code);
    }
    assert_eq!(run(&mut c, "EXISTS free").int(), 0);
}
