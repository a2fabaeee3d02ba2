//! The lock is freed, and its first waiter is killed or unblocked, in one write. What was to be given back comes before
//! the next command on that key.

use redis::{Connection, Value};
use std::time::{Duration, Instant};
use testbed::{
    Copies, Expect, Reply, Talk, Waiter, at_once, cmd, held_and_waited_for, info, run, transaction,
    unblocks, wait_as, wait_on,
};

/// Far less than any lease here, and far more than a busy machine takes: a waiter that gets a lock so soon has
/// not waited for a lease to end.
const AT_ONCE: Duration = Duration::from_secs(30);

/// How several commands reach the server together.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Together {
    /// In one write.
    Pipeline,
    /// In one write, as one transaction.
    Transaction,
}

impl Together {
    pub(crate) const ALL: [Self; 2] = [Self::Pipeline, Self::Transaction];

    /// Sends these commands, and gives what each replied.
    #[track_caller]
    pub(crate) fn send(self, c: &mut Connection, lines: &[&str]) -> Vec<Value> {
        match self {
            Self::Pipeline => at_once(c, lines).into_iter().map(Expect::value).collect(),
            Self::Transaction => transaction(c, lines),
        }
    }
}

/// The next waiter has the lock, and has not waited for any lease to end.
#[track_caller]
pub(crate) fn has_it_at_once(next: &mut Connection) {
    let start = Instant::now();
    next.receive().grant();
    let after = start.elapsed();
    assert!(after < AT_ONCE, "granted after {after:?}");
}

/// The reply is nil where there is no code of an error.
#[track_caller]
pub(crate) fn nil_or_refused(reply: Reply, code: &str) {
    match code {
        "" => reply.nil(),
        code => drop(reply.refused(code)),
    }
}

/// The connection ends without a reply.
#[track_caller]
pub(crate) fn is_closed(waiter: &mut Waiter) {
    let reply = waiter.recv_response();
    assert!(reply.is_err(), "a reply though it was closed: {reply:?}");
}

/// Frees `k` and ends its first waiter's call in both orders, in one write and in one transaction.
/// `check` is given the first waiter and what ending it replied, and tells whether it was granted.
#[track_caller]
fn free_and_end(end: impl Fn(&Waiter) -> String, check: impl Fn(&mut Waiter, Value) -> bool) {
    let (copies, mut c) = Copies::started();
    for free in [
        "LOCK.RELEASE k a",
        "LOCK.RELEASE k a ALL",
        "DEL k",
        "PEXPIRE k -1",
    ] {
        for together in Together::ALL {
            for ends_first in [false, true] {
                let what = format!("{free}, {together:?}, ends first: {ends_first}");
                run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
                let [mut first, mut next] = wait_as(&copies, ["b", "c"]);
                let end = end(&first);
                let lines = [[free, &end], [&end, free]][usize::from(ends_first)];
                let mut replies = together.send(&mut c, &lines);
                if check(&mut first, replies.remove(usize::from(!ends_first))) {
                    println!("{what}");
                    held_and_waited_for(&mut c, &["b"], &["c"]);
                    assert_eq!(run(&mut c, "LOCK.RELEASE k b").int(), 0, "{what}");
                }
                has_it_at_once(&mut next);
                let held = info(&mut c);
                let found = (&held.owner[..], held.holds, held.waiters);
                assert_eq!(found, (&b"c"[..], 1, 0), "{what}");
                copies.replica_agrees();
                assert_eq!(run(&mut c, "LOCK.RELEASE k c").int(), 0, "{what}");
                run(&mut c, "LOCK.INFO k").nil();
            }
        }
    }
    run(&mut c, "LOCK.ACQUIRE k d").grant();
    copies.agree();
}

#[test]
fn killing_the_first_waiter_gives_the_lock_to_the_next() {
    free_and_end(
        |first| format!("CLIENT KILL ID {}", first.id),
        |first, killed| {
            assert_eq!(killed.int(), 1);
            is_closed(first);
            false
        },
    );
}

#[test]
fn unblocking_the_first_waiter_with_an_error_gives_the_lock_to_the_next() {
    free_and_end(
        |first| format!("CLIENT UNBLOCK {} ERROR", first.id),
        |first, unblocked| {
            assert_eq!(unblocked.int(), i64::from(unblocks()));
            match first.receive() {
                reply if unblocks() => drop(reply.refused("UNBLOCKED")),
                reply => drop(reply.grant()),
            }
            !unblocks()
        },
    );
}

#[test]
fn unblocking_the_first_waiter_gives_the_lock_to_the_next_unless_it_is_told_of_its_grant() {
    free_and_end(
        |first| format!("CLIENT UNBLOCK {} TIMEOUT", first.id),
        |first, unblocked| {
            let reply = first.receive().value();
            let granted = reply != Value::Nil;
            if granted {
                reply.grant();
            } else {
                assert_eq!(unblocked.int(), 1);
            }
            assert!(granted || unblocks());
            granted
        },
    );
}

/// After the grant of `b` was lost on its way, in the same write: each command finds the lock with `c`, who is next.
#[test]
fn each_command_finds_the_next_owner() {
    for (command, code) in [
        ("LOCK.ACQUIRE k b", ""),
        ("LOCK.ACQUIRE k a", ""),
        ("LOCK.RENEW k b", "NOTOWNER"),
        ("LOCK.RELEASE k b", "NOTOWNER"),
        ("LOCK.FENCE k 1", "FENCED"),
    ] {
        println!("{command}");
        let (copies, mut c) = Copies::held();
        let [mut first, mut next] = wait_as(&copies, ["b", "c"]);
        let kill = format!("CLIENT KILL ID {}", first.id);
        let reply = at_once(&mut c, &["LOCK.RELEASE k a", &kill, command]).remove(2);
        nil_or_refused(reply, code);
        has_it_at_once(&mut next);
        is_closed(&mut first);
        assert_eq!(info(&mut c).owner, b"c");
        copies.agree();
    }
}

#[test]
fn a_give_back_finds_its_lock_in_another_database() {
    let (copies, mut c) = Copies::started();
    let waiter_in = |database: i64, owner: &str| {
        let connection = copies.connection_in(database);
        wait_on(&copies, connection, &format!("k {owner} PX 600000 BLOCK 0"))
    };
    for database in [9, 0] {
        cmd!(c, "SELECT", database).okay();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    }
    let mut lines = Vec::new();
    let mut waiters = Vec::new();
    for database in [9, 0] {
        let (first, next) = (waiter_in(database, "b"), waiter_in(database, "c"));
        lines.push(format!("SELECT {database}"));
        lines.push("LOCK.RELEASE k a".to_owned());
        lines.push(format!("CLIENT KILL ID {}", first.id));
        waiters.push(next);
    }
    at_once(&mut c, &lines);
    for waiter in &mut waiters {
        has_it_at_once(waiter);
    }
    for database in [9, 0] {
        cmd!(c, "SELECT", database).okay();
        assert_eq!(info(&mut c).owner, b"c");
    }
    copies.agree();
}
