//! Several waiting calls of one owner, and calls that say how many holds they want.

use crate::copies::Copies;
use crate::support::{info, nobody_waits, queue, run, wait, wait_as};
use redis::{Connection, Value};
use testbed::{Expect, Server, Talk, cmd, eventually};

#[test]
fn the_waiting_calls_of_the_new_owner_are_granted_together() {
    let copies = Copies::start();
    let mut c = copies.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut ours = Vec::new();
    let mut others = Vec::new();
    for n in 0..3 {
        ours.push(wait(&copies, &format!("k b PX {}00000 BLOCK 0", n + 1)));
        others.push(wait(&copies, &format!("k other{n} PX 600000 BLOCK 0")));
    }
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    let held = info(&mut c);
    assert_eq!(
        (&held.owner[..], held.holds, held.waiters),
        (&b"b"[..], 3, 3)
    );
    assert_eq!(held.lease_ms, 300_000, "the longest that was asked for");
    for (n, call) in ours.iter_mut().enumerate() {
        let (grant, n) = (call.granted(), i64::try_from(n).expect("small"));
        assert_eq!((grant.token, grant.holds), (held.token, n + 1));
        assert_eq!(grant.lease, (n + 1) * 100_000);
    }
    assert_eq!(queue(&mut c), ["other0", "other1", "other2"]);
    for left in [2, 1, 0] {
        assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), left);
    }
    others[0].granted();
    copies.agree();
}

#[test]
fn calls_with_one_hold_are_granted_together_as_one() {
    let copies = Copies::start();
    let mut c = copies.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut calls = [(); 3].map(|()| wait(&copies, "k b PX 600000 HOLDS 1 BLOCK 0"));
    let mut behind = wait(&copies, "k c PX 600000 BLOCK 0");
    run(&mut c, "DEL k").int();
    let grants = calls.each_mut().map(|call| call.granted());
    assert_eq!(grants[0].holds, 1);
    assert!(grants.iter().all(|grant| *grant == grants[0]), "{grants:?}");
    assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0);
    behind.granted();
    copies.agree();
}

#[test]
fn whenever_an_owner_comes_to_hold_a_lock_its_waiting_calls_are_granted() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [_before, mut call] = wait_as(&server, ["z", "b"]);
    // An administrator gives the lock to one from the middle of the queue.
    run(&mut c, "LOCK.ACQUIRE j b PX 600000").grant();
    run(&mut c, "RENAME j k").okay();
    assert_eq!(call.granted().holds, 2);
    assert_eq!(queue(&mut c), ["z"]);
}

#[test]
fn a_waiting_call_of_the_holder_is_no_wait() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [_first] = wait_as(&server, ["b"]);
    assert_eq!(run(&mut c, "LOCK.ACQUIRE k a BLOCK 0").grant().holds, 2);
    assert_eq!(
        run(&mut c, "LOCK.ACQUIRE k a BLOCK 9 HOLDS 2")
            .grant()
            .holds,
        2
    );
    assert_eq!(info(&mut c).waiters, 1);
}

#[test]
fn more_holds_and_tokens_are_never_waited_for() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE free b BLOCK 0 HOLDS 2").refused("NOTHELD");
    run(&mut c, "LOCK.ACQUIRE free b BLOCK 0 TOKEN 7").refused("NOTHELD");
    let token = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant().token;
    for words in ["HOLDS 2", "HOLDS 9", "TOKEN 7", "HOLDS 1 TOKEN 7"] {
        run(&mut c, &format!("LOCK.ACQUIRE k b BLOCK 0 {words}")).refused("NOTOWNER");
    }
    run(&mut c, "LOCK.ACQUIRE k a BLOCK 0 HOLDS 3").refused("NOTHELD");
    run(&mut c, "LOCK.ACQUIRE k a BLOCK 0 TOKEN 7").refused("FENCED");
    cmd!(c, "LOCK.ACQUIRE", "k", "a", "BLOCK", 0, "TOKEN", token).grant();
    run(&mut c, "LOCK.ACQUIRE k * BLOCK 0 HOLDS 1").refused("ERR");
    nobody_waits(&server);
}

#[test]
fn owners_that_the_server_makes_wait_each_for_itself() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let mut waiters = [(); 2].map(|()| wait(&server, "k * PX 600000 BLOCK 0"));
    let owners = queue(&mut c);
    assert!(
        owners[0].len() == 36 && owners[0] != owners[1],
        "{owners:?}"
    );
    let mut before = "a".to_owned();
    for (waiter, owner) in waiters.iter_mut().zip(owners) {
        assert_eq!(cmd!(c, "LOCK.RELEASE", "k", before).int(), 0);
        assert_eq!(waiter.granted().owner, owner.as_bytes());
        before = owner;
    }
}

#[test]
fn release_all_calls_off_the_waits_of_an_owner_that_does_not_hold() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut one, mut other, mut two] = wait_as(&server, ["b", "c", "b"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k b ALL").int(), 0);
    one.receive().nil();
    two.receive().nil();
    assert_eq!(queue(&mut c), ["c"]);
    run(&mut c, "LOCK.RELEASE k b ALL").refused("NOTOWNER");
    assert_eq!(run(&mut c, "LOCK.RELEASE k a").int(), 0);
    other.granted();
    // Also inside a transaction and a script.
    let [mut three, mut four] = wait_as(&server, ["b", "d"]);
    let lines = ["MULTI", "LOCK.RELEASE k b ALL", "EXEC"];
    let replies = crate::support::at_once(&mut c, &lines).remove(2).items();
    assert_eq!(replies[0].clone().int(), 0);
    three.receive().nil();
    let script = "return redis.call('LOCK.RELEASE', KEYS[1], 'd', 'ALL')";
    assert_eq!(cmd!(c, "EVAL", script, 1, "k").int(), 0);
    four.receive().nil();
    nobody_waits(&server);
}

#[test]
fn no_other_release_calls_off_a_wait() {
    let server = Server::start();
    let mut c = server.connection();
    let token = run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant().token;
    let [mut waiter] = wait_as(&server, ["b"]);
    for words in ["", "HOLDS 0", "HOLDS 3", "TOKEN 7", "ALL TOKEN 7"] {
        run(&mut c, &format!("LOCK.RELEASE k b {words}")).refused("NOTOWNER");
    }
    cmd!(c, "LOCK.RELEASE", "k", "b", "ALL", "TOKEN", token).refused("NOTOWNER");
    run(&mut c, "LOCK.RENEW k b").refused("NOTOWNER");
    assert_eq!(queue(&mut c), ["b"]);
    run(&mut c, "LOCK.RELEASE k a").int();
    waiter.granted();
}

/// `ALL` of an owner that holds gives the holds back; its other calls were granted long before.
#[test]
fn release_all_by_the_holder_leaves_the_queue_as_it_is() {
    let server = Server::start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let [mut one, two] = wait_as(&server, ["b", "c"]);
    assert_eq!(run(&mut c, "LOCK.RELEASE k a ALL").int(), 0);
    one.granted();
    assert!(two.is_blocked(&mut c));
    eventually(|| queue(&mut c) == ["c"], "one to wait");
}

/// The owner comes to hold the lock, while it waits for it, in the transaction of its release.
#[test]
fn release_all_by_a_holder_who_also_waits_calls_off_the_wait() {
    for limit in ["", " SHARED"] {
        for behind in [false, true] {
            let copies = Copies::start();
            let mut c = copies.connection();
            run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
            run(&mut c, &format!("LOCK.ACQUIRE other b{limit} PX 600000")).grant();
            let words = format!("k b{limit} PX 600000 BLOCK 0");
            let mut ours = [(); 2].map(|()| wait(&copies, &words));
            let mut next = behind.then(|| wait(&copies, "k c PX 600000 BLOCK 0"));
            let mut replies = replace_and(&mut c, "LOCK.RELEASE k b ALL");
            assert_eq!(replies.pop().expect("a reply").int(), 0);
            for call in &mut ours {
                call.receive().nil();
            }
            match &mut next {
                Some(next) => assert_eq!(next.granted().owner, b"c"),
                None => run(&mut c, "LOCK.INFO k").nil(),
            }
            nobody_waits(&copies);
            copies.agree();
        }
    }
}

/// With `TOKEN` it gives back that grant alone.
#[test]
fn release_all_of_a_grant_leaves_the_wait_of_its_owner() {
    let copies = Copies::start();
    let mut c = copies.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    let token = run(&mut c, "LOCK.ACQUIRE other b PX 600000").grant().token;
    let [mut waiter] = wait_as(&copies, ["b"]);
    replace_and(&mut c, &format!("LOCK.RELEASE k b ALL TOKEN {token}"));
    assert!(waiter.granted().token > token);
    copies.agree();
}

/// Puts the lock `other` in the place of `k`, and does this, in one transaction.
#[track_caller]
fn replace_and(c: &mut Connection, command: &str) -> Vec<Value> {
    let lines = ["MULTI", "DEL k", "RENAME other k", command, "EXEC"];
    let exec = crate::support::at_once(c, &lines).pop().expect("replies");
    exec.items()
}
