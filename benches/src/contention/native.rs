//! Contenders in this process that send bare commands, each on a connection that is kept.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use redis::Connection;
use testbed::{Expect, Server, Talk};

use super::contestant::{Outcome, Runner};
use super::turn::{Tally, Turn, outcome};
use crate::passed::Passed;
use crate::scale::Workload;

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
}

impl Runner for Native {
    /// Connects the contenders.
    fn open(&mut self, server: &Server, workload: Workload) -> Result<(), String> {
        let Workload { contenders, locks } = workload;
        self.locks = locks;
        self.connections = (0..contenders).map(|_| server.connection()).collect();
        for lock in 0..locks {
            self.passed.free(server, &self.passed.key(lock));
        }
        Ok(())
    }

    fn turn(&mut self, seconds: f64) -> Result<Outcome, String> {
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
                        contend(passed, connection, number, number % locks, turn)
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
        Ok(outcome(&tallies, seconds))
    }
}

fn contend(passed: Passed, c: &mut Connection, number: usize, lock: usize, turn: &Turn) -> Tally {
    let key = passed.key(lock);
    let (ask, pass_on) = (passed.ask(&key, number), passed.pass_on(&key, number));
    let mut tally = Tally::default();
    while !turn.is_over() {
        c.post(&ask);
        passed.got(c);
        turn.granted(lock, &mut tally);
        c.send(&pass_on).int();
    }
    tally
}
