//! Contenders in this process that send bare commands, each on a connection that is kept.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use testbed::{Expect, Server, cmd};

use super::Outcome;
use super::turn::{Tally, Turn, outcome};
use crate::scale::Workload;

/// What the contenders pass on.
#[derive(Clone, Copy)]
pub(super) enum Passed {
    Lock,
    Baton,
}

pub(super) struct Native {
    passed: Passed,
    locks: usize,
    connections: Vec<Connection>,
}

impl Native {
    pub(super) fn new(passed: Passed) -> Self {
        Self {
            passed,
            locks: 0,
            connections: Vec::new(),
        }
    }

    /// Connects the contenders.
    pub(super) fn open(&mut self, server: &Server, workload: Workload) {
        let Workload { contenders, locks } = workload;
        self.locks = locks;
        self.connections = (0..contenders).map(|_| server.connection()).collect();
        let mut connection = server.connection();
        for lock in 0..locks {
            cmd!(connection, "DEL", self.passed.key(lock)).int();
            if let Passed::Baton = self.passed {
                cmd!(connection, "RPUSH", self.passed.key(lock), "baton").int();
            }
        }
    }

    pub(super) fn turn(&mut self, seconds: f64) -> Outcome {
        let (passed, locks) = (self.passed, self.locks);
        let ready = Barrier::new(self.connections.len() + 1);
        let turn = Turn::of(locks);
        let (seconds, tallies) = thread::scope(|scope| {
            let (turn, ready) = (&turn, &ready);
            let contenders: Vec<_> = self
                .connections
                .iter_mut()
                .enumerate()
                .map(|(number, connection)| {
                    scope.spawn(move || {
                        ready.wait();
                        passed.contend(connection, number, number % locks, turn)
                    })
                })
                .collect();
            let began = Instant::now();
            ready.wait();
            thread::sleep(Duration::from_secs_f64(seconds));
            turn.end();
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

impl Passed {
    fn key(self, lock: usize) -> String {
        match self {
            Self::Lock => format!("contest:lock:{lock}"),
            Self::Baton => format!("contest:baton:{lock}"),
        }
    }

    fn contend(self, c: &mut Connection, number: usize, lock: usize, turn: &Turn) -> Tally {
        let key = self.key(lock);
        let mut tally = Tally::default();
        while !turn.is_over() {
            match self {
                Self::Lock => {
                    cmd!(*c, "LOCK.ACQUIRE", key, number, "PX", 30_000, "BLOCK", 0).grant();
                }
                Self::Baton => {
                    cmd!(*c, "BLPOP", key, 0).items();
                }
            }
            turn.granted(lock, &mut tally);
            match self {
                Self::Lock => cmd!(*c, "LOCK.RELEASE", key, number).int(),
                Self::Baton => cmd!(*c, "RPUSH", key, "baton").int(),
            };
        }
        tally
    }
}
