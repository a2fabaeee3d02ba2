//! Leases that end, alone and ten thousand at once: how late the next grants are, and the delay for other clients.

use std::time::{Duration, Instant};

use testbed::{Expect, Talk, cmd};

use crate::part::Part;
use crate::ping::longest_ping_while;
use crate::scale::Scale;
use crate::servers::{Crowd, Program, for_each};
use crate::stats::{interleave, percentiles};
use crate::table::Table;
use crate::ways::call;

/// Long enough that all locks are acquired before the first lease ends.
const LEASE_MS: u32 = 500;
const TIMES_ALONE: usize = 100;

pub(super) fn measure(program: &Program, scale: Scale) -> Part {
    Part {
        tables: vec![alone(program, scale), awaited(program, scale)],
        ..Part::default()
    }
}

/// From the end of a lease to the next grant, on an idle server.
fn alone(program: &Program, scale: Scale) -> Table {
    let server = program.start();
    let (mut holder, mut waiter) = (server.connection(), server.connection());
    let figures = interleave(scale.rounds(), &mut [()], |()| {
        let mut late: Vec<f64> = (0..TIMES_ALONE)
            .map(|_| {
                cmd!(holder, "LOCK.ACQUIRE", "lock", "a", "PX", 5).grant();
                let end = cmd!(holder, "PEXPIRETIME", "lock").int();
                let next = cmd!(waiter, "LOCK.ACQUIRE", "lock", "b", "BLOCK", 0).grant();
                cmd!(waiter, "LOCK.RELEASE", "lock", "b").int();
                lateness(next.token, end)
            })
            .collect();
        percentiles(&mut late)
    });
    Table::of(
        program,
        "From a lease's end to the next one's grant",
        &format!("How late does the server notice that a lease has ended? Measured {TIMES_ALONE} times a round, on \
                  an idle server."),
        &[
            "median ms",
            "p99 ms",
            "worst ms",
        ],
    )
    .rows(["LOCK.ACQUIRE BLOCK"], figures)
}

/// Leases that somebody waits for, each a lock of its own.
fn awaited(program: &Program, scale: Scale) -> Table {
    let count = scale.of(1_000, 10_000);
    let mut crowd = Crowd::of(program, count);
    // Doubled while a lease ends before all clients wait.
    let mut lease_ms = LEASE_MS;
    let figures = interleave(scale.rounds(), &mut [()], |()| {
        loop {
            if let Some(figures) = awaited_round(&mut crowd, lease_ms) {
                return figures;
            }
            lease_ms *= 2;
        }
    });
    Table::of(
        program,
        format!("{count} leases that end at once, each with a waiter"),
        "A crash may let very many waiters in at once. The figures are the server CPU of each hand-off, including \
         the last part of the wait, another client's longest PING meanwhile, and how late the grants were made.",
        &[
            "us a lease",
            "worst PING ms",
            "median late ms",
            "p99 late ms",
            "worst late ms",
        ],
    )
    .rows(["locks"], figures)
}

/// `None` when the first lease ended before the last client waited.
fn awaited_round(Crowd { server, clients }: &mut Crowd, lease_ms: u32) -> Option<[f64; 5]> {
    let count = clients.len();
    let mut holder = server.connection();
    let begin = Instant::now();
    for_each(&mut holder, 0..count, |number| {
        call!("LOCK.ACQUIRE lock:{number} a PX {lease_ms}")
    });
    let ends: Vec<i64> = (0..count)
        .map(|number| cmd!(holder, "PEXPIRETIME", format!("lock:{number}")).int())
        .collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.post(&call!("LOCK.ACQUIRE lock:{number} b BLOCK 0 EX 60"));
    }
    let in_time = begin.elapsed() < Duration::from_millis(lease_ms.into());
    let mut late: Vec<f64> = Vec::with_capacity(count);
    let longest = longest_ping_while(server, || {
        for (client, end) in clients.iter_mut().zip(&ends) {
            late.push(lateness(client.receive().grant().token, *end));
        }
    });
    for_each(&mut holder, 0..count, |number| {
        call!("LOCK.RELEASE lock:{number} b")
    });
    let [median, p99, last] = percentiles(&mut late);
    let each = longest.spent / 1000.0 / count as f64;
    in_time.then_some([each, longest.time, median, p99, last])
}

/// Milliseconds from the end of a lease to a grant, whose token is its time in microseconds.
fn lateness(token: i64, end_ms: i64) -> f64 {
    (token - end_ms * 1000) as f64 / 1000.0
}
