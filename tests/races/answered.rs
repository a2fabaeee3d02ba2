//! What was to be given back comes before the next command on that key.

use crate::ends::{has_it_at_once, is_closed};
use testbed::{Copies, Expect, at_once, cmd, info, run, wait_as, wait_on};

/// After the grant of `b` was lost on its way, in the same write: `command` finds the lock with
/// `c`, who is next.
#[track_caller]
fn finds_the_next_owner(command: &str, code: &str) {
    let (copies, mut c) = Copies::held();
    let [mut first, mut next] = wait_as(&copies, ["b", "c"]);
    let kill = format!("CLIENT KILL ID {}", first.id);
    let reply = at_once(&mut c, &["LOCK.RELEASE k a", &kill, command]).remove(2);
    if code.is_empty() {
        reply.nil();
    } else {
        reply.refused(code);
    }
    has_it_at_once(&mut next);
    is_closed(&mut first);
    assert_eq!(info(&mut c).owner, b"c");
    copies.agree();
}

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
        finds_the_next_owner(command, code);
    }
}

#[test]
fn a_give_back_finds_its_lock_in_another_database() {
    let (copies, mut c) = Copies::started();
    let waiter_in = |database: i64, owner: &str| {
        let mut connection = copies.connection();
        cmd!(connection, "SELECT", database).okay();
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
