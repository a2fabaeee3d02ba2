//! The end of a lease: the connection is closed within 10 ms, and before the lock is granted to another or
//! a command on that connection is answered, after a stall too. What is still held then is renewed.

use crate::support::{Keeper, at_once, at_one_moment, count, run, stands, while_stopped};
use redis::Connection;
use std::thread::sleep;
use std::time::Duration;
use testbed::state::unix_ms;
use testbed::{Expect, Load, Server, Talk, cmd, line};

/// How late a close may be, beside what a busy machine adds.
const LATE_MS: i64 = 10;
/// How late a single one may be.
const LATEST_MS: i64 = 500;

#[test]
fn a_lease_that_ends_closes_the_connection_within_ten_milliseconds() {
    let server = Server::start();
    let mut c = server.connection();
    let mut late = Vec::new();
    for _ in 0..9 {
        let mut keeper = Keeper::on(&server, "k a PX 60000 KEEP 60000");
        let load = Load::on(&server);
        let lines = ["PEXPIRE k 60", "PEXPIRETIME k"];
        let end = at_one_moment(&mut c, &lines).remove(1).int();
        keeper.is_closed();
        let took = unix_ms() - end;
        assert!(took >= 0, "{took}");
        late.push((took - load.so_far_ms()).max(0));
    }
    late.sort_unstable();
    assert!(late[4] <= LATE_MS && late[8] < LATEST_MS, "{late:?}");
}

/// Two that want the lock as soon as the lease has ended: one asks, one waits.
fn thieves(server: &Server, c: &mut Connection) -> [Connection; 2] {
    let mut waiting = server.connection();
    testbed::post!(waiting, "LOCK.ACQUIRE", "k", "w", "PX", 60_000, "BLOCK", 0);
    testbed::eventually(|| testbed::waiters(c, "k") == ["w"], "it to wait");
    [server.connection(), waiting]
}

/// What each sends while the server stands still, in both orders.
#[test]
fn after_a_stall_no_pong_comes_with_a_grant_to_another() {
    for first in ["PING", "thief"] {
        let server = Server::start();
        let mut c = server.connection();
        let mut keeper = Keeper::of(server.connection());
        let token = keeper.acquire("k a PX 1000 KEEP 60000").token;
        let [mut thief, mut waiting] = thieves(&server, &mut c);
        while_stopped(&server, || {
            sleep(Duration::from_millis(1300));
            if first == "PING" {
                keeper.throw(&["PING"]);
            }
            thief.post(&line("LOCK.ACQUIRE k thief"));
            keeper.throw(&["PING"]);
        });
        assert!(waiting.receive().grant().token > token);
        thief.receive().nil();
        keeper.is_closed();
    }
}

/// The lease ends in a command of the same tick.
#[test]
fn in_the_batch_of_a_slow_command_no_pong_comes_with_a_grant_to_another() {
    for (number, order) in [[0, 1, 2], [1, 0, 2], [0, 2, 1], [1, 2, 0]]
        .into_iter()
        .enumerate()
    {
        let server = Server::start();
        let mut c = server.connection();
        let mut keeper = Keeper::of(server.connection());
        keeper.acquire("k a PX 1000 KEEP 60000");
        let mut thief = server.connection();
        while_stopped(&server, || {
            for part in order {
                match part {
                    0 => c.post(&line("DEBUG SLEEP 1.2")),
                    1 => keeper.throw(&["PING"]),
                    _ => thief.post(&line("LOCK.ACQUIRE k thief PX 60000")),
                }
            }
            if number % 2 == 1 {
                keeper.throw(&["PING"]);
            }
        });
        c.receive().okay();
        let stolen = thief.receive().value() != redis::Value::Nil;
        let answers = std::iter::from_fn(|| {
            // Where nobody took it in that batch, it may have been renewed.
            if stolen { keeper.next() } else { None }
        });
        // One that was sent and answered before the lease ended, at most.
        let pongs = answers.count();
        let before = usize::from(order[0] == 1);
        assert!(pongs <= before, "{order:?}: {pongs} answers");
    }
}

/// Its own command on the lock, too, finds the lease ended.
#[test]
fn who_asks_for_its_own_lock_after_the_end_of_the_lease_is_closed() {
    for words in [
        "LOCK.RENEW k a",
        "LOCK.INFO k",
        "LOCK.ACQUIRE k a KEEP 60000",
        "EXISTS k",
        "PING",
    ] {
        let server = Server::start();
        let mut keeper = Keeper::on(&server, "k a PX 1000 KEEP 60000");
        while_stopped(&server, || {
            sleep(Duration::from_millis(1300));
            keeper.throw(&[words]);
        });
        keeper.is_closed();
    }
}

#[test]
fn after_a_stall_what_is_still_held_is_renewed() {
    let server = Server::start();
    let mut c = server.connection();
    let mut keeper = Keeper::of(server.connection());
    let token = keeper.acquire("k a PX 6000 KEEP 60000").token;
    let mut thief = server.connection();
    while_stopped(&server, || {
        sleep(Duration::from_millis(2500));
        keeper.throw(&["PING"]);
        thief.post(&line("LOCK.ACQUIRE k thief"));
    });
    assert_eq!(keeper.receive().text(), "PONG");
    thief.receive().nil();
    let left = run(&mut c, "PTTL k").int();
    // More than it had left, which was 3500 at most.
    assert!(left > 4500, "{left}");
    stands(&mut c, token);
    assert_eq!(count(&server, "kept_closes"), 0);
}

/// Before a LOCK command on it, in the very batch in which the slow command ends.
#[test]
fn what_is_due_is_renewed_before_a_command_on_it() {
    let server = Server::start();
    let mut c = server.connection();
    let _keeper = Keeper::on(&server, "k a PX 3000 KEEP 60000");
    let left = {
        cmd!(c, "MULTI").okay();
        run(&mut c, "DEBUG SLEEP 1.8").text();
        run(&mut c, "LOCK.INFO k").text();
        run(&mut c, "LOCK.ACQUIRE k b").text();
        run(&mut c, "PTTL k").text();
        let replies = run(&mut c, "EXEC").items();
        replies[2].clone().nil();
        replies[3].clone().int()
    };
    // By the clock of the transaction, which stood still while it ran.
    assert!(left > 2500, "{left}");
}

/// What is told then is what stands.
#[test]
fn what_is_due_is_renewed_before_a_look_at_it() {
    let server = Server::start();
    let mut c = server.connection();
    let _keeper = Keeper::on(&server, "k a PX 3000 KEEP 60000");
    for look in ["LOCK.INFO k", "LOCK.HOLDERS k"] {
        let renewals = count(&server, "kept_renewals");
        let mut replies = at_once(&mut c, &["DEBUG SLEEP 1.8", look, "INFO lock"]);
        let section = replies.pop().expect("three replies").text();
        let renewed = format!("lock_kept_renewals:{}", renewals + 1);
        assert!(section.contains(&renewed), "{section}");
        let seen = replies.pop().expect("three replies");
        let holder = match look {
            "LOCK.INFO k" => seen.value(),
            _ => seen.items().remove(0),
        };
        let left = holder.fields()["ttl-ms"].clone().int();
        assert!(left > 2500, "{look}: {left}");
    }
    // Where nothing may be written, it is told as it stands.
    run(&mut c, "CONFIG SET min-replicas-to-write 1").okay();
    let replies = at_once(&mut c, &["DEBUG SLEEP 1.3", "LOCK.INFO k"]);
    let left = replies[1].clone().lock_info().ttl_ms;
    assert!((1..1800).contains(&left), "{left}");
    run(&mut c, "CONFIG SET min-replicas-to-write 0").okay();
    assert_eq!(count(&server, "kept_closes"), 0);
}

/// Those that have least left are renewed first, and those that have ended are not.
#[test]
fn many_after_a_stall() {
    let server = Server::start();
    let mut c = server.connection();
    let mut lost = Keeper::on(&server, "lost a PX 1000 KEEP 60000");
    let mut keeper = Keeper::of(server.connection());
    for n in 0..300 {
        keeper.acquire(&format!("k{n} a PX {} KEEP 60000", 6000 + (n % 7) * 100));
    }
    while_stopped(&server, || {
        sleep(Duration::from_millis(2500));
        keeper.throw(&["PING"]);
        lost.throw(&["PING"]);
    });
    lost.is_closed();
    assert_eq!(keeper.receive().text(), "PONG");
    testbed::eventually(
        // More than any had left.
        || (0..300).all(|n| run(&mut c, &format!("PTTL k{n}")).int() > 4200),
        "all to be renewed",
    );
    assert_eq!(count(&server, "kept"), 300);
}
