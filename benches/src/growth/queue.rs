//! A hand-off with few and with many waiters, compared with an item passed on by RPUSH and BLPOP.

use std::time::Instant;

use redis::Connection;
use testbed::{Expect, Server, Talk, eventually, server_cpu};

use crate::part::{Bar, Goal, Panel, Part};
use crate::passed::Passed;
use crate::scale::Scale;
use crate::servers::{Program, number, open_files_allowed, settle};
use crate::session::post_all;
use crate::stats::{Rounds, order, percentiles};
use crate::table::Table;

const WAITERS: [usize; 4] = [10, 100, 1_000, 10_000];
/// Hand-offs of a queue before the next queue runs.
const SLICE: usize = 500;
const KEY: &str = "queue";

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let mut table = Table::of(
        program,
        "A hand-off, by the waiters in the queue",
        "Whether a long queue makes a hand-off dearer. Server CPU of a release, the next one's grant and the releaser's new wait; its ratio to \
         that with 100 waiters; and how long the next one's grant takes to come, client included.",
        &["us a hand-off", "of 100 waiters", "us to the grant"],
    );
    let limit = open_files_allowed();
    let (mut queues, mut too_long) = (Vec::new(), Vec::new());
    let mut needed = 100;
    for waiters in WAITERS {
        needed += waiters;
        if needed < limit {
            let queue = Queue::new(program, waiters);
            queues.push(queue);
        } else {
            too_long.push(waiters);
        }
    }
    let both = [Passed::Lock, Passed::Baton];
    let mut figures = both.map(|_| vec![<[Rounds; 2]>::default(); queues.len()]);
    for round in 0..=scale.rounds {
        for index in order(round, both.len()) {
            let costs = compare(&mut queues, both[index], scale.hand_offs);
            // The first round does not count.
            if round > 0 {
                for ([cpu, latency], (spent, waited)) in figures[index].iter_mut().zip(costs) {
                    cpu.push(spent);
                    latency.push(waited);
                }
            }
        }
    }
    let mut part = Part::default();
    let mut bars = Vec::new();
    let names = ["LOCK.RELEASE and LOCK.ACQUIRE BLOCK", "RPUSH and BLPOP"];
    for ((passed, name), figures) in both.into_iter().zip(names).zip(&figures) {
        let of: Vec<(usize, &[Rounds; 2])> = WAITERS.into_iter().zip(figures).collect();
        let base = of.iter().find(|(waiters, _)| *waiters == 100);
        for (waiters, [cpu, latency]) in &of {
            let ratio = base.and_then(|(_, [base, _])| cpu.over(base).spread());
            let name = format!("{name}, {waiters}");
            table.row(name.clone(), vec![cpu.spread(), ratio, latency.spread()]);
            let ours = passed == Passed::Lock;
            bars.extend(ratio.map(|ratio| Bar { name, ratio, ours }));
            if ours && *waiters == 10_000 {
                part.goals.push(Goal::at_most(
                    "hand-off CPU with 10000 waiters of that with 100",
                    1.2,
                    ratio,
                ));
            }
        }
        for waiters in &too_long {
            let why = format!("{limit} open files are allowed here (ulimit -n)");
            table.left_out(format!("{name}, {waiters}"), why);
        }
    }
    part.tables.push(table);
    part.panels.push(Panel {
        title: format!(
            "Server CPU of a hand-off by waiters in the queue, {}; 100 waiters = 1",
            program.version
        ),
        bars,
    });
    part
}

/// For each queue the server CPU of a hand-off and the time until the grant, in microseconds. The slices
/// are so short that what disturbs the machine affects all queues.
fn compare(queues: &mut [Queue], passed: Passed, hand_offs: usize) -> Vec<(f64, f64)> {
    for queue in &mut *queues {
        queue.enter(passed);
        queue.rotate(passed, hand_offs / 4);
    }
    let mut spent = vec![0.0; queues.len()];
    let mut waited = vec![Vec::new(); queues.len()];
    for slice in 0..hand_offs / SLICE {
        for index in order(slice, queues.len()) {
            let queue = &mut queues[index];
            let before = server_cpu(queue.server.pid());
            waited[index].extend(queue.rotate(passed, SLICE));
            let after = server_cpu(queue.server.pid());
            spent[index] += after.saturating_sub(before).as_nanos() as f64;
        }
    }
    for queue in &mut *queues {
        queue.leave(passed);
    }
    let count = hand_offs / SLICE * SLICE;
    let cost = |(spent, mut waited): (f64, Vec<f64>)| {
        let [median, ..] = percentiles(&mut waited);
        (spent / count as f64 / 1000.0, median)
    };
    spent.into_iter().zip(waited).map(cost).collect()
}

/// Clients that pass something on, in the order in which they ask for it.
struct Queue {
    server: Server,
    clients: Vec<Connection>,
    holder: usize,
}

impl Queue {
    fn new(program: &Program, waiters: usize) -> Self {
        let max = (waiters * 4 / 3 + 50).max(1000).to_string();
        let server = program.builder().config("maxclients", &max).start();
        settle(&server);
        let clients = (0..=waiters).map(|_| server.connection()).collect();
        Self {
            server,
            clients,
            holder: 0,
        }
    }

    /// All clients join the queue, one after the other, since the server reads many connections in any order.
    fn enter(&mut self, passed: Passed) {
        passed.free(&mut self.server.connection(), KEY);
        let first = &mut self.clients[0];
        first.post(&passed.ask(KEY, 0));
        passed.got(first);
        self.holder = 0;
        for (number, client) in self.clients.iter_mut().enumerate().skip(1) {
            // The server reads both at once: when it answers the first, it has the second.
            post_all(client, &[redis::cmd("PING"), passed.ask(KEY, number)]);
            client.receive().value();
        }
        let all = self.clients.len() - 1;
        eventually(
            || number(&self.server, "clients", "blocked_clients") as usize == all,
            "all to wait",
        );
    }

    /// So many clients pass it on and join again. Returns the time of each hand-off.
    fn rotate(&mut self, passed: Passed, times: usize) -> Vec<f64> {
        let mut latencies = Vec::with_capacity(times);
        for _ in 0..times {
            let holder = self.holder;
            latencies.push(self.pass_on(passed));
            self.clients[holder].post(&passed.ask(KEY, holder));
        }
        latencies
    }

    /// Passes it on until nobody waits.
    fn leave(&mut self, passed: Passed) {
        for _ in 1..self.clients.len() {
            self.pass_on(passed);
        }
        let last = passed.pass_on(KEY, self.holder);
        self.clients[self.holder].send(&last).int();
    }

    /// Passes it on to the next client. Returns the time until that has it, in microseconds.
    fn pass_on(&mut self, passed: Passed) -> f64 {
        let next = (self.holder + 1) % self.clients.len();
        let call = passed.pass_on(KEY, self.holder);
        let start = Instant::now();
        self.clients[self.holder].post(&call);
        passed.got(&mut self.clients[next]);
        let micros = start.elapsed().as_nanos() as f64 / 1000.0;
        self.clients[self.holder].receive().int();
        self.holder = next;
        micros
    }
}
