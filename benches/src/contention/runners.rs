//! Runners take a contestant's turns: contenders in this process, or a program of another language.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, OnceLock};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use redis::Connection;
use redis_lock_client::{Lock, Locks};
use testbed::{Expect, Server, Talk, cmd};
use tokio::runtime::Runtime;

use super::turn::Turn;
use crate::passed::Passed;
use crate::process::Process;
use crate::scale::Workload;
use crate::toolchains::Language;

/// How long a program may take to start, to connect, and to finish after the time is up.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) trait Runner: Send {
    /// Connects the contenders, and makes the locks free.
    fn open(&mut self, server: &Server, workload: Workload) -> Result<(), String>;

    /// One turn.
    fn turn(&mut self, seconds: f64) -> Result<Turn, String>;
}

/// A program of another language.
pub(super) struct Program(Process);

impl Program {
    pub(super) fn start(language: &Language, port: u16, way: &str) -> Result<Self, String> {
        let mut command = language.command();
        command.args([&port.to_string(), way]);
        Process::start(&mut command, &format!("{}-{way}", language.name)).map(Self)
    }
}

impl Runner for Program {
    fn open(&mut self, _: &Server, workload: Workload) -> Result<(), String> {
        let Workload { contenders, locks } = workload;
        self.0.send(&format!("open {contenders} {locks}"))?;
        match self.0.receive(TIMEOUT)?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("it says {other:?}")),
        }
    }

    fn turn(&mut self, seconds: f64) -> Result<Turn, String> {
        self.0.send(&format!("run {seconds}"))?;
        let turn = self.0.receive(TIMEOUT + Duration::from_secs_f64(seconds))?;
        serde_json::from_str(&turn).map_err(|error| format!("{error} in {turn:.200?}"))
    }
}

/// The time of a turn of contenders in this process.
struct Clock {
    began: Instant,
    over: AtomicBool,
}

/// The times of one contender, and its errors.
#[derive(Default)]
struct Tally {
    times: Vec<u64>,
    errors: u64,
}

impl Clock {
    fn start() -> Self {
        Self {
            began: Instant::now(),
            over: AtomicBool::new(false),
        }
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn now(&self) -> u64 {
        self.began.elapsed().as_nanos() as u64
    }

    /// Ends the turn, and gives its length in seconds.
    fn end(&self) -> f64 {
        self.over.store(true, Ordering::SeqCst);
        self.began.elapsed().as_secs_f64()
    }
}

fn turn_of(tallies: impl IntoIterator<Item = Tally>, seconds: f64) -> Turn {
    let mut turn = Turn {
        seconds,
        ..Turn::default()
    };
    for tally in tallies {
        turn.times.push(tally.times);
        turn.errors += tally.errors;
    }
    turn
}

/// Contenders that send bare commands, each a thread with a connection that is kept.
pub(super) struct Commands {
    passed: Passed,
    locks: usize,
    connections: Vec<Connection>,
}

impl Commands {
    pub(super) fn new(passed: Passed) -> Self {
        Self {
            passed,
            locks: 0,
            connections: Vec::new(),
        }
    }
}

impl Runner for Commands {
    fn open(&mut self, server: &Server, workload: Workload) -> Result<(), String> {
        let Workload { contenders, locks } = workload;
        self.locks = locks;
        self.connections = (0..contenders).map(|_| server.connection()).collect();
        for lock in 0..locks {
            self.passed.free(server, &self.passed.key(lock));
        }
        Ok(())
    }

    fn turn(&mut self, seconds: f64) -> Result<Turn, String> {
        let (passed, locks) = (self.passed, self.locks);
        let ready = &Barrier::new(self.connections.len() + 1);
        // Started when all threads are.
        let clock = &OnceLock::new();
        Ok(thread::scope(|scope| {
            let contenders = self.connections.iter_mut().enumerate();
            let contenders = contenders.map(|(number, connection)| {
                scope.spawn(move || {
                    ready.wait();
                    let clock = clock.get_or_init(Clock::start);
                    contend(passed, connection, number, number % locks, clock)
                })
            });
            let contenders: Vec<_> = contenders.collect();
            ready.wait();
            let clock = clock.get_or_init(Clock::start);
            thread::sleep(Duration::from_secs_f64(seconds));
            let seconds = clock.end();
            let tallies = contenders.into_iter().map(ScopedJoinHandle::join);
            turn_of(tallies.map(|tally| tally.expect("a contender")), seconds)
        }))
    }
}

fn contend(passed: Passed, c: &mut Connection, number: usize, lock: usize, clock: &Clock) -> Tally {
    let key = passed.key(lock);
    let (ask, pass_on) = (passed.ask(&key, number), passed.pass_on(&key, number));
    let mut tally = Tally::default();
    while !clock.is_over() {
        let asked = clock.now();
        c.post(&ask);
        passed.got(c);
        tally.times.extend([asked, clock.now(), clock.now()]);
        c.send(&pass_on).int();
    }
    tally
}

/// Contenders through the project's own client, one for all of them, as its users have it.
pub(super) struct Clients {
    runtime: Runtime,
    locks: Locks,
    handles: Vec<Lock>,
}

impl Clients {
    pub(super) fn new(server: &Server) -> Result<Self, String> {
        let runtime = Runtime::new().map_err(|error| error.to_string())?;
        let url = format!("redis://127.0.0.1:{}/", server.port());
        Ok(Self {
            runtime,
            locks: Locks::open(url).map_err(|error| error.to_string())?,
            handles: Vec::new(),
        })
    }
}

impl Runner for Clients {
    fn open(&mut self, server: &Server, workload: Workload) -> Result<(), String> {
        let key = |number| format!("contest:client:{}", number % workload.locks);
        for lock in 0..workload.locks {
            cmd!(server.connection(), "DEL", key(lock)).int();
        }
        let handles = (0..workload.contenders).map(|number| self.locks.lock(key(number)));
        self.handles = handles.collect();
        Ok(())
    }

    fn turn(&mut self, seconds: f64) -> Result<Turn, String> {
        let clock = Arc::new(Clock::start());
        self.runtime.block_on(async {
            let contenders = self.handles.iter().cloned();
            let contenders =
                contenders.map(|handle| tokio::spawn(hold(handle, Arc::clone(&clock))));
            let contenders: Vec<_> = contenders.collect();
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            let seconds = clock.end();
            let mut tallies = Vec::new();
            for contender in contenders {
                tallies.push(contender.await.expect("a contender"));
            }
            Ok(turn_of(tallies, seconds))
        })
    }
}

/// Holds the lock over and over.
async fn hold(handle: Lock, clock: Arc<Clock>) -> Tally {
    let mut tally = Tally::default();
    while !clock.is_over() {
        let asked = clock.now();
        let released = match handle.acquire().await {
            Ok(guard) => {
                tally.times.extend([asked, clock.now(), clock.now()]);
                guard.release().await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            eprintln!("{error}");
            tally.errors += 1;
        }
    }
    tally
}
