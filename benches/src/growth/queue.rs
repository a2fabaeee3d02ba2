//! A hand-off with few and with many waiters, compared with an item passed on by RPUSH and BLPOP.

use std::time::Instant;

use testbed::{Expect, Talk, server_cpu};

use crate::part::Limit::AtMost;
use crate::part::{Goal, Panel, Part};
use crate::passed::Passed;
use crate::scale::Scale;
use crate::servers::{Crowd, Program, clients_allowed};
use crate::session::post_all;
use crate::stats::{interleave_slices, percentiles};
use crate::table::Table;

const WAITERS: [usize; 4] = [10, 100, 1_000, 10_000];
/// The queue that the others are compared with.
const BASE: usize = 1;
/// Hand-offs of a queue before the next queue runs.
const SLICE: usize = 500;
const KEY: &str = "queue";

const COLUMNS: &[&str] = &["us a hand-off", "of 100 waiters", "us to the grant"];

pub(super) fn measure(program: &Program, scale: Scale) -> Part {
    let mut table = Table::of(
        program,
        "A hand-off, by the waiters in the queue",
        "Does a hand-off cost more if the queue is long? The figures are the server CPU of a release, the next \
         waiter's grant and the releaser's new wait, its ratio to that with 100 waiters, and how long it takes until \
         the next waiter has its grant, client included.",
        COLUMNS,
    );
    // All queues are there at once.
    let allowed = clients_allowed();
    let mut all = 0;
    let is_allowed = WAITERS.map(|waiters| {
        all += waiters + 1;
        all <= allowed
    });
    let wanted = WAITERS.into_iter().zip(is_allowed);
    let wanted = wanted.filter_map(|(waiters, is_allowed)| is_allowed.then_some(waiters));
    let mut queues: Vec<Queue> = wanted.map(|waiters| Queue::new(program, waiters)).collect();
    let both = [
        (Passed::Lock, "LOCK.RELEASE and LOCK.ACQUIRE BLOCK"),
        (Passed::Baton, "RPUSH and BLPOP"),
    ];
    for (first, (passed, name)) in (0..).step_by(WAITERS.len()).zip(both) {
        for queue in &mut queues {
            queue.enter(passed);
        }
        let slices = scale.of(1, 32);
        let figures = interleave_slices(scale.rounds(), slices, &mut queues, |queue| {
            queue.rotate(passed)
        });
        for queue in &mut queues {
            queue.leave(passed);
        }
        let mut figures = figures.into_iter();
        for (waiters, is_allowed) in WAITERS.into_iter().zip(is_allowed) {
            let why = || format!("{allowed} clients are allowed here (ulimit -n)");
            let figures = is_allowed.then(|| figures.next().expect("those of each queue"));
            table.row(
                format!("{name}, {waiters}"),
                first + BASE,
                figures.ok_or_else(why),
            );
        }
    }
    let what = "hand-off CPU, 10000 waiters relative to 100";
    let goal = Goal::new(what, AtMost(1.2), table.over(WAITERS.len() - 1, 0));
    let panel = Panel {
        title: format!(
            "Server CPU of a hand-off by waiters in the queue, {}; 100 waiters = 1",
            program.version
        ),
        bars: table.bars(0, None, |name| name.starts_with("LOCK.")),
    };
    Part {
        panels: vec![panel],
        ..Part::new(table, vec![goal])
    }
}

/// Clients that pass something on, in the order in which they ask for it.
struct Queue {
    crowd: Crowd,
    holder: usize,
}

impl Queue {
    fn new(program: &Program, waiters: usize) -> Self {
        Self {
            crowd: Crowd::of(program, waiters + 1),
            holder: 0,
        }
    }

    /// All clients join the queue, one after the other, since the server reads many connections in any order.
    fn enter(&mut self, passed: Passed) {
        passed.free(&mut self.crowd.server.connection(), KEY);
        let clients = &mut self.crowd.clients;
        clients[0].post(&passed.ask(KEY, 0));
        clients[0].receive().value();
        self.holder = 0;
        for (number, client) in clients.iter_mut().enumerate().skip(1) {
            // The server reads both at once: when it answers the first, it has the second.
            post_all(client, &[redis::cmd("PING"), passed.ask(KEY, number)]);
            client.receive().value();
        }
        self.crowd.until_blocked(self.crowd.clients.len() - 1);
    }

    /// Many clients pass it on and join again. The server CPU of each, and the median time of a hand-off, in
    /// microseconds.
    fn rotate(&mut self, passed: Passed) -> [f64; 2] {
        let mut times = Vec::with_capacity(SLICE);
        let pid = self.crowd.server.pid();
        let before = server_cpu(pid);
        for _ in 0..SLICE {
            let holder = self.holder;
            times.push(self.pass_on(passed));
            self.crowd.clients[holder].post(&passed.ask(KEY, holder));
        }
        let spent = server_cpu(pid).saturating_sub(before);
        let [median, ..] = percentiles(&mut times);
        [spent.as_nanos() as f64 / 1000.0 / SLICE as f64, median]
    }

    /// Passes it on until nobody waits.
    fn leave(&mut self, passed: Passed) {
        for _ in 1..self.crowd.clients.len() {
            self.pass_on(passed);
        }
        let last = passed.pass_on(KEY, self.holder);
        self.crowd.clients[self.holder].send(&last).int();
    }

    /// Passes it on to the next client. Returns the time until that has it, in microseconds.
    fn pass_on(&mut self, passed: Passed) -> f64 {
        let clients = &mut self.crowd.clients;
        let next = (self.holder + 1) % clients.len();
        let start = Instant::now();
        clients[self.holder].post(&passed.pass_on(KEY, self.holder));
        clients[next].receive().value();
        let micros = start.elapsed().as_nanos() as f64 / 1000.0;
        clients[self.holder].receive().int();
        self.holder = next;
        micros
    }
}
