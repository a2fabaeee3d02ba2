//! A hand-off with few and with many in the queue, beside a token passed by BLPOP and RPUSH.

use std::fs;
use std::time::Instant;

use redis::Connection;
use testbed::{Expect, Server, Talk, cmd, eventually, post, server_cpu};

use crate::part::{Bar, Goal, Panel, Part};
use crate::scale::Scale;
use crate::servers::{Program, number, settle};
use crate::stats::{Rounds, interleave};
use crate::table::Table;

const WAITERS: [usize; 4] = [10, 100, 1_000, 10_000];
const KEY: &str = "queue";
const HOUR_MS: u32 = 3_600_000;

/// What goes from client to client.
#[derive(Clone, Copy, PartialEq)]
enum Passed {
    Lock,
    Baton,
}

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let mut table = Table::new(
        format!(
            "A hand-off, by the waiters in the queue: {}",
            program.version
        ),
        "Server CPU of a release, the next one's grant and the releaser's new wait; its ratio to \
         that with 100 waiters; and how long the next one's grant takes to come, client included.",
        &["us a hand-off", "of 100 waiters", "us to the grant"],
    );
    let room = open_files_allowed();
    let (mut queues, mut too_long) = (Vec::new(), Vec::new());
    let mut needed = 100;
    for waiters in WAITERS {
        needed += waiters;
        if needed < room {
            let queue = Queue::new(program, waiters);
            queues.push(queue);
        } else {
            too_long.push(waiters);
        }
    }
    let mut contestants: Vec<(Passed, usize)> = [Passed::Lock, Passed::Baton]
        .into_iter()
        .flat_map(|passed| (0..queues.len()).map(move |place| (passed, place)))
        .collect();
    let figures = interleave(scale.rounds, &mut contestants, |(passed, place)| {
        queues[*place].round(*passed, scale.hand_offs)
    });
    let mut part = Part::default();
    let mut bars = Vec::new();
    for (passed, name) in [
        (Passed::Lock, "LOCK.RELEASE and LOCK.ACQUIRE BLOCK"),
        (Passed::Baton, "RPUSH and BLPOP"),
    ] {
        let of: Vec<(usize, &[Rounds; 2])> = contestants
            .iter()
            .zip(&figures)
            .filter(|((which, _), _)| *which == passed)
            .map(|((_, place), figures)| (WAITERS[*place], figures))
            .collect();
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
            let why = format!("{room} open files are allowed here (ulimit -n)");
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

/// Each connection takes one here and one in the server.
fn open_files_allowed() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(usize::MAX)
}

/// Clients that pass something on, in the order in which they ask for it.
struct Queue {
    server: Server,
    clients: Vec<Connection>,
    holder: usize,
}

impl Queue {
    fn new(program: &Program, waiters: usize) -> Self {
        let most = (waiters + 50).max(1000).to_string();
        let server = program.builder().config("maxclients", &most).start();
        settle(&server);
        let clients = (0..=waiters).map(|_| server.connection()).collect();
        Self {
            server,
            clients,
            holder: 0,
        }
    }

    /// All ask, pass it on for a while, and go.
    fn round(&mut self, passed: Passed, hand_offs: usize) -> [f64; 2] {
        self.enter(passed);
        self.rotate(passed, hand_offs / 4);
        let before = server_cpu(self.server.pid());
        let mut latencies = self.rotate(passed, hand_offs);
        let spent = server_cpu(self.server.pid()).saturating_sub(before);
        self.leave(passed);
        latencies.sort_by(f64::total_cmp);
        let micros = spent.as_nanos() as f64 / hand_offs as f64 / 1000.0;
        [micros, latencies[latencies.len() / 2]]
    }

    fn enter(&mut self, passed: Passed) {
        match passed {
            Passed::Lock => {
                let client = &mut self.clients[0];
                cmd!(*client, "LOCK.ACQUIRE", KEY, 0, "PX", HOUR_MS).grant();
            }
            Passed::Baton => {}
        }
        self.holder = 0;
        for number in 1..self.clients.len() {
            self.ask(passed, number);
        }
        let all = self.clients.len() - 1;
        eventually(
            || number(&self.server, "clients", "blocked_clients") as usize == all,
            "all to wait",
        );
    }

    fn rotate(&mut self, passed: Passed, times: usize) -> Vec<f64> {
        let mut latencies = Vec::with_capacity(times);
        for _ in 0..times {
            let holder = self.holder;
            latencies.push(self.pass_on(passed));
            self.ask(passed, holder);
        }
        latencies
    }

    fn leave(&mut self, passed: Passed) {
        for _ in 1..self.clients.len() {
            self.pass_on(passed);
        }
        if passed == Passed::Lock {
            let client = &mut self.clients[self.holder];
            cmd!(*client, "LOCK.RELEASE", KEY, self.holder).int();
        }
    }

    fn ask(&mut self, passed: Passed, number: usize) {
        let client = &mut self.clients[number];
        match passed {
            Passed::Lock => {
                post!(
                    *client,
                    "LOCK.ACQUIRE",
                    KEY,
                    number,
                    "BLOCK",
                    0,
                    "PX",
                    HOUR_MS
                );
            }
            Passed::Baton => post!(*client, "BLPOP", KEY, 0),
        }
    }

    /// To the next in line; the time until it has it, in microseconds.
    fn pass_on(&mut self, passed: Passed) -> f64 {
        let next = (self.holder + 1) % self.clients.len();
        let start = Instant::now();
        let client = &mut self.clients[self.holder];
        match passed {
            Passed::Lock => post!(*client, "LOCK.RELEASE", KEY, self.holder),
            Passed::Baton => post!(*client, "RPUSH", KEY, "baton"),
        }
        let grant = self.clients[next].receive();
        let micros = start.elapsed().as_nanos() as f64 / 1000.0;
        match passed {
            Passed::Lock => {
                grant.grant();
            }
            Passed::Baton => {
                grant.items();
            }
        }
        self.clients[self.holder].receive().int();
        self.holder = next;
        micros
    }
}
