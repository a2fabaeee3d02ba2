//! Contenders in this process, through the Rust client.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use testbed::{Expect, Server, cmd};

use super::{Outcome, Workload};
use crate::stats::percentile;

/// What the contenders pass on.
#[derive(Clone, Copy)]
pub(super) enum Passed {
    Lock,
    Baton,
}

pub(super) struct Native {
    passed: Passed,
}

/// What all contenders share.
struct Contest {
    passed: Passed,
    began: Instant,
    over: AtomicBool,
    /// When the last release of each lock was sent, in nanoseconds since the start.
    releases: Vec<AtomicU64>,
}

#[derive(Default)]
struct Tally {
    grants: u64,
    late: u64,
    latencies_us: Vec<f64>,
}

impl Native {
    pub(super) fn new(passed: Passed) -> Self {
        Self { passed }
    }

    /// Connects the contenders, calls `start`, and lets them contend.
    pub(super) fn contest(
        &self,
        server: &Server,
        workload: Workload,
        start: impl FnOnce(),
    ) -> Outcome {
        let contest = Contest {
            passed: self.passed,
            began: Instant::now(),
            over: AtomicBool::new(false),
            releases: (0..workload.locks).map(|_| AtomicU64::new(0)).collect(),
        };
        let mut connection = server.connection();
        for lock in 0..workload.locks {
            cmd!(connection, "DEL", contest.key(lock)).int();
            if let Passed::Baton = self.passed {
                cmd!(connection, "RPUSH", contest.key(lock), "baton").int();
            }
        }
        let ready = Barrier::new(workload.contenders + 1);
        let (seconds, tallies) = thread::scope(|scope| {
            let (contest, ready) = (&contest, &ready);
            let contenders: Vec<_> = (0..workload.contenders)
                .map(|number| {
                    let connection = server.connection();
                    scope.spawn(move || {
                        ready.wait();
                        contest.contend(connection, number)
                    })
                })
                .collect();
            start();
            let began = Instant::now();
            ready.wait();
            thread::sleep(Duration::from_secs_f64(workload.seconds));
            contest.over.store(true, Ordering::SeqCst);
            let seconds = began.elapsed().as_secs_f64();
            let tallies: Vec<Tally> = contenders
                .into_iter()
                .map(|contender| contender.join().expect("a contender"))
                .collect();
            (seconds, tallies)
        });
        outcome(&tallies, seconds)
    }
}

impl Contest {
    fn key(&self, lock: usize) -> String {
        match self.passed {
            Passed::Lock => format!("contest:lock:{lock}"),
            Passed::Baton => format!("contest:baton:{lock}"),
        }
    }

    fn contend(&self, mut c: Connection, number: usize) -> Tally {
        let release = &self.releases[number % self.releases.len()];
        let key = self.key(number % self.releases.len());
        let mut tally = Tally::default();
        while !self.over.load(Ordering::Relaxed) {
            match self.passed {
                Passed::Lock => {
                    cmd!(c, "LOCK.ACQUIRE", key, number, "PX", 30_000, "BLOCK", 0).grant();
                }
                Passed::Baton => {
                    cmd!(c, "BLPOP", key, 0).items();
                }
            }
            let now = self.now();
            if self.over.load(Ordering::Relaxed) {
                tally.late += 1;
            } else {
                tally.grants += 1;
                // Only the holder of the lock reads or sets this.
                let released = release.load(Ordering::SeqCst);
                if released > 0 {
                    tally.latencies_us.push((now - released) as f64 / 1000.0);
                }
            }
            release.store(self.now(), Ordering::SeqCst);
            match self.passed {
                Passed::Lock => cmd!(c, "LOCK.RELEASE", key, number).int(),
                Passed::Baton => cmd!(c, "RPUSH", key, "baton").int(),
            };
        }
        tally
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }
}

fn outcome(tallies: &[Tally], seconds: f64) -> Outcome {
    let grants = || tallies.iter().map(|tally| tally.grants);
    let mut latencies: Vec<f64> = tallies
        .iter()
        .flat_map(|tally| tally.latencies_us.iter().copied())
        .collect();
    latencies.sort_by(f64::total_cmp);
    Outcome {
        grants: grants().sum(),
        late: tallies.iter().map(|tally| tally.late).sum(),
        seconds,
        least: grants().min().unwrap_or(0),
        most: grants().max().unwrap_or(0),
        median_us: percentile(&latencies, 0.5),
        p99_us: percentile(&latencies, 0.99),
        worst_us: percentile(&latencies, 1.0),
        errors: 0,
    }
}
