//! Nothing is left of waiters that have gone.

use crate::support::{blocked_clients, line, nobody_waits, run, unblocks};
use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually};

const CROWD: usize = 200;
const ROUNDS: usize = 4;
/// What one of them may leave behind, in bytes: less than the least that a leak would.
const LEFT_BY_ONE: i64 = 16;

/// All ways in which a wait ends.
const WAYS: [&str; 7] = [
    "time out",
    "close",
    "kill",
    "call off",
    "grant",
    "overwrite",
    "unblock",
];

fn used_memory(c: &mut Connection) -> i64 {
    let text = cmd!(*c, "INFO", "memory").text();
    let used = text
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|n| n.parse().ok()).expect("a number")
}

/// Lets a crowd wait, each for a key and by a name of its own or half of them for one key, and ends
/// all the waits in this way.
fn come_and_go(server: &Server, c: &mut Connection, way: &str) {
    let wait_ms = if way == "time out" { 500 } else { 0 };
    let key = |n: usize| format!("key-{}", if n < CROWD / 2 { 0 } else { n });
    let mut crowd: Vec<_> = (0..CROWD)
        .map(|n| {
            let mut waiter = server.connection();
            let id = cmd!(waiter, "CLIENT", "ID").int();
            if n == 0 || n >= CROWD / 2 {
                cmd!(*c, "LOCK.ACQUIRE", key(n), "a", "PX", 600_000).grant();
            }
            let call = format!(
                "LOCK.ACQUIRE {} owner-{n} PX 600000 BLOCK {wait_ms}",
                key(n)
            );
            waiter.post(&line(&call));
            (id, waiter)
        })
        .collect();
    if way != "time out" {
        let all = i64::try_from(CROWD).expect("small");
        eventually(|| blocked_clients(server) == all, "all to wait");
    }
    let mut replies = true;
    match way {
        "time out" => {}
        "close" => replies = false,
        "kill" => {
            for (id, _) in &crowd {
                cmd!(*c, "CLIENT", "KILL", "ID", id).int();
            }
            replies = false;
        }
        "call off" => {
            for n in 0..CROWD {
                let owner = format!("owner-{n}");
                assert_eq!(cmd!(*c, "LOCK.RELEASE", key(n), owner, "ALL").int(), 0);
            }
        }
        "grant" => {
            cmd!(*c, "LOCK.RELEASE", key(0), "a").int();
            for n in 0..CROWD / 2 {
                cmd!(*c, "LOCK.RELEASE", key(0), format!("owner-{n}")).int();
            }
            let keys: Vec<_> = (CROWD / 2..CROWD).map(key).collect();
            cmd!(*c, "DEL", keys).int();
        }
        "overwrite" => {
            for n in 0..CROWD {
                cmd!(*c, "SET", key(n), "text").okay();
            }
        }
        "unblock" => {
            for (id, _) in &crowd {
                assert_eq!(cmd!(*c, "CLIENT", "UNBLOCK", id, "ERROR").int(), 1);
            }
        }
        _ => unreachable!("{way}"),
    }
    if replies {
        for (_, waiter) in &mut crowd {
            // Whatever it is: other tests look at that.
            let _ = waiter.receive();
        }
    }
    drop(crowd);
    nobody_waits(server);
    run(c, "FLUSHALL").okay();
    eventually(
        || {
            run(c, "INFO clients")
                .text()
                .contains("connected_clients:1\r\n")
        },
        "all to be gone",
    );
}

#[test]
fn waiters_that_left_in_any_way_leave_no_memory_behind() {
    let server = Server::start();
    let mut c = server.connection();
    let waiters = i64::try_from(CROWD * ROUNDS).expect("small");
    for way in WAYS {
        if way == "unblock" && !unblocks() {
            continue;
        }
        // Tables that have grown stay so.
        come_and_go(&server, &mut c, way);
        let mut settled = || {
            let mut least = i64::MAX;
            for _ in 0..20 {
                least = least.min(used_memory(&mut c));
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            least
        };
        let before = settled();
        let bound = before + waiters * LEFT_BY_ONE;
        for _ in 0..ROUNDS {
            come_and_go(&server, &mut c, way);
        }
        let mut after = i64::MAX;
        eventually(
            || {
                after = after.min(used_memory(&mut c));
                after <= bound
            },
            &format!("the memory to be back: {way}, {before} bytes before"),
        );
        println!("{way}: {before} bytes before, {after} after {waiters} waiters");
    }
}

/// Makes so many connections wait by this command; then they are gone.
fn crowd(server: &Server, size: usize, call: impl Fn(usize) -> redis::Cmd) {
    let mut crowd: Vec<_> = (0..size).map(|_| server.connection()).collect();
    for (number, waiter) in crowd.iter_mut().enumerate() {
        waiter.post(&call(number));
    }
    let all = i64::try_from(size).expect("small");
    eventually(|| blocked_clients(server) == all, "all to wait");
    drop(crowd);
    eventually(
        || blocked_clients(server) == 0 && server.info_field("clients", "connected_clients") == "2",
        "all to be gone",
    );
}

#[test]
fn what_a_crowd_of_waiters_took_is_given_back() {
    /// The tables of the calls that wait took some ten times as much.
    const LEFT: i64 = 16 * 1024;
    const MANY: usize = 1000;
    let server = Server::builder().config("maxclients", "2000").start();
    let mut c = server.connection();
    run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
    // What is kept after any clients that waited, few or many.
    let call = |n| line(&format!("LOCK.ACQUIRE k owner-{n} BLOCK 0"));
    crowd(&server, MANY, |_| line("BLPOP list 0"));
    crowd(&server, 50, call);
    let mut before = i64::MAX;
    for _ in 0..20 {
        before = before.min(used_memory(&mut c));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    crowd(&server, MANY, call);
    let mut after = i64::MAX;
    eventually(
        || {
            after = after.min(used_memory(&mut c));
            after <= before + LEFT
        },
        &format!("the memory to be back: {before} bytes before"),
    );
    println!("{before} bytes before, {after} after");
}
