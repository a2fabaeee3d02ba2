//! What waiting costs, and how soon a waiter has the lock: the second part of `make bench`.

// Figures to look at: a lost bit does not matter.
#![allow(clippy::cast_precision_loss)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, post, server_cpu};

const KEY: &str = "lock";

fn main() {
    println!("{:?}", Server::version());
    lateness();
    growth();
    hand_offs_a_second();
}

/// From the end of a lease to the next grant, on an idle server.
fn lateness() {
    const ROUNDS: usize = 1000;
    let server = Server::start();
    let (mut holder, mut waiter) = (server.connection(), server.connection());
    let mut late = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        cmd!(holder, "LOCK.ACQUIRE", KEY, "a", "PX", 20).grant();
        let end = cmd!(holder, "PEXPIRETIME", KEY).int();
        let next = cmd!(waiter, "LOCK.ACQUIRE", KEY, "b", "BLOCK", 0).grant();
        late.push(next.token as f64 / 1000.0 - end as f64);
        cmd!(waiter, "LOCK.RELEASE", KEY, "b").int();
    }
    late.sort_by(f64::total_cmp);
    println!(
        "from a lease's end to the hand-off, {ROUNDS} times: median {:.1} ms, p99 {:.1} ms, worst {:.1} ms",
        late[ROUNDS / 2],
        late[ROUNDS * 99 / 100],
        late[ROUNDS - 1]
    );
}

/// The server's CPU for a hand-off, with few and with many in the queue.
fn growth() {
    const HAND_OFFS: usize = 4000;
    let mut base = None;
    println!("server CPU a hand-off (release and the next one's grant), by waiters in the queue:");
    for waiters in [10, 200, 1000, 8000] {
        let server = Server::builder().config("maxclients", "20000").start();
        let mut queue = Queue::new(&server, waiters);
        queue.rotate(500);
        let before = server_cpu(server.pid());
        queue.rotate(HAND_OFFS);
        let cpu =
            (server_cpu(server.pid()).saturating_sub(before)).as_nanos() as f64 / HAND_OFFS as f64;
        let base = *base.get_or_insert(cpu);
        println!("  {waiters:6} {:7.2} us  {:5.2}", cpu / 1000.0, cpu / base);
    }
}

/// A lock with a holder and many waiters; whoever releases it waits again at the end.
struct Queue {
    clients: Vec<Connection>,
    holder: usize,
}

impl Queue {
    fn new(server: &Server, waiters: usize) -> Self {
        let mut clients: Vec<_> = (0..=waiters).map(|_| server.connection()).collect();
        cmd!(clients[0], "LOCK.ACQUIRE", KEY, "0", "EX", 3600).grant();
        let mut looker = server.connection();
        for (number, client) in clients.iter_mut().enumerate().skip(1) {
            post!(*client, "LOCK.ACQUIRE", KEY, number, "BLOCK", 0, "EX", 3600);
            if number % 500 == 0 || number == waiters {
                eventually(
                    || {
                        cmd!(looker, "LOCK.INFO", KEY).lock_info().waiters
                            == number.cast_signed() as i64
                    },
                    "all to wait",
                );
            }
        }
        Self { clients, holder: 0 }
    }

    fn rotate(&mut self, times: usize) {
        for _ in 0..times {
            let next = (self.holder + 1) % self.clients.len();
            let client = &mut self.clients[self.holder];
            assert_eq!(cmd!(*client, "LOCK.RELEASE", KEY, self.holder).int(), 0);
            post!(
                *client,
                "LOCK.ACQUIRE",
                KEY,
                self.holder,
                "BLOCK",
                0,
                "EX",
                3600
            );
            self.clients[next].receive().grant();
            self.holder = next;
        }
    }
}

/// Grants a second with many clients on one lock, beside one client's round trips.
fn hand_offs_a_second() {
    const CLIENTS: usize = 32;
    const ROUNDS: usize = 7;
    const LENGTH: Duration = Duration::from_secs(1);
    let server = Server::start();
    let mut ratios = Vec::new();
    let mut grants = Vec::new();
    for _ in 0..ROUNDS {
        let mut c = server.connection();
        let (start, mut pings) = (Instant::now(), 0_u64);
        while start.elapsed() < LENGTH {
            cmd!(c, "PING").value();
            pings += 1;
        }
        let stop = AtomicBool::new(false);
        let (stop, server) = (&stop, &server);
        let shares: Vec<u64> = thread::scope(|scope| {
            let clients: Vec<_> = (0..CLIENTS)
                .map(|owner| scope.spawn(move || contend(server, owner, stop)))
                .collect();
            thread::sleep(LENGTH);
            stop.store(true, Ordering::Relaxed);
            clients
                .into_iter()
                .map(|client| client.join().expect("a client"))
                .collect()
        });
        let sum: u64 = shares.iter().sum();
        grants.push(sum as f64);
        ratios.push(sum as f64 / pings as f64);
    }
    grants.sort_by(f64::total_cmp);
    ratios.sort_by(f64::total_cmp);
    println!(
        "{CLIENTS} clients on one lock: {:.0} hand-offs a second, {:.2} of one client's PING round trips (median of {ROUNDS}; least {:.2}, most {:.2})",
        grants[ROUNDS / 2],
        ratios[ROUNDS / 2],
        ratios[0],
        ratios[ROUNDS - 1]
    );
}

fn contend(server: &Server, owner: usize, stop: &AtomicBool) -> u64 {
    let mut c = server.connection();
    let mut grants = 0;
    while !stop.load(Ordering::Relaxed) {
        cmd!(c, "LOCK.ACQUIRE", KEY, owner, "BLOCK", 0).grant();
        grants += 1;
        cmd!(c, "LOCK.RELEASE", KEY, owner).int();
    }
    grants
}
