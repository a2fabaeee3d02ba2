//! The contenders in Rust: a program like those of the other languages in benches/.

use std::io::stdin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant, SystemTime};

use redis::{Client, Connection};
use redis_lock_client::{Lock, Locks};
use testbed::{Expect, Talk};
use tokio::runtime::Runtime;

use super::contestant::OURS;
use super::turn::Turn;
use crate::passed::Passed;

/// The argument that starts this program as contenders.
pub(crate) const ROLE: &str = "contend";

/// The clock of a turn.
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

/// Serves until its input ends. The arguments are the server's port, the way of locking (client, commands, baton), how
/// many contenders for how many locks, and how many milliseconds each holds a lock, and then rests.
pub(crate) fn serve(arguments: &[String]) -> ExitCode {
    let [port, way, numbers @ ..] = arguments else {
        return ExitCode::FAILURE;
    };
    let numbers: Result<Vec<usize>, _> = numbers.iter().map(|word| word.parse()).collect();
    let Ok([contenders, locks, held_ms]) = numbers.as_deref() else {
        return ExitCode::FAILURE;
    };
    let url = format!("redis://127.0.0.1:{port}/");
    let held = Duration::from_millis(*held_ms as u64);
    let key = |number| format!("contest:{way}:{}", number % locks);
    if way == OURS {
        let runtime = Runtime::new().expect("a runtime");
        let all = Locks::open(url).expect("a client");
        let handles: Vec<_> = (0..*contenders).map(|it| all.lock(key(it))).collect();
        answer(|seconds| runtime.block_on(tasks(&handles, seconds, held)));
    } else {
        let passed = if way == "baton" {
            Passed::Baton
        } else {
            Passed::Lock
        };
        let client = Client::open(url).expect("a client");
        let connect = |_| client.get_connection().expect("a connection");
        let mut connections: Vec<_> = (0..*contenders).map(connect).collect();
        for lock in 0..*locks {
            passed.free(&mut connections[0], &key(lock));
        }
        answer(|seconds| threads(passed, &mut connections, &key, seconds, held));
    }
    ExitCode::SUCCESS
}

/// Runs a turn of so many seconds for each line.
fn answer(mut turn: impl FnMut(Duration) -> Turn) {
    println!("ready");
    for line in stdin().lines().map_while(Result::ok) {
        let seconds = line.parse().expect("seconds");
        let turn = turn(Duration::from_secs_f64(seconds));
        println!("{}", serde_json::to_string(&turn).expect("a turn"));
    }
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

fn turn_of(clock: &Clock, tallies: Vec<Tally>, seconds: f64) -> Turn {
    let epoch = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Turn {
        began: epoch.saturating_sub(clock.began.elapsed()).as_nanos() as u64,
        seconds,
        errors: tallies.iter().map(|tally| tally.errors).sum(),
        times: tallies.into_iter().map(|tally| tally.times).collect(),
        alone: Vec::new(),
    }
}

/// The commands alone, each contender a thread with a connection that is kept.
fn threads(
    passed: Passed,
    connections: &mut [Connection],
    key: &(impl Fn(usize) -> String + Sync),
    length: Duration,
    held: Duration,
) -> Turn {
    let clock = &Clock::start();
    thread::scope(|scope| {
        let contenders = connections.iter_mut().enumerate();
        let contenders: Vec<_> = contenders
            .map(|(number, connection)| {
                let key = key(number);
                let calls = [passed.ask(&key, number), passed.pass_on(&key, number)];
                scope.spawn(move || {
                    let [ask, pass_on] = calls;
                    let mut tally = Tally::default();
                    while !clock.is_over() {
                        let asked = clock.now();
                        connection.post(&ask);
                        passed.got(connection);
                        let granted = clock.now();
                        thread::sleep(held);
                        tally.times.extend([asked, granted, clock.now()]);
                        connection.send(&pass_on).int();
                        thread::sleep(held);
                    }
                    tally
                })
            })
            .collect();
        thread::sleep(length);
        let seconds = clock.end();
        let tallies = contenders.into_iter().map(ScopedJoinHandle::join);
        let tallies = tallies.map(|tally| tally.expect("a contender"));
        turn_of(clock, tallies.collect(), seconds)
    })
}

/// This project's client, one for all contenders, each a task.
async fn tasks(handles: &[Lock], length: Duration, held: Duration) -> Turn {
    let clock = Arc::new(Clock::start());
    let contenders = handles.iter().cloned();
    let contenders = contenders.map(|handle| tokio::spawn(hold(handle, Arc::clone(&clock), held)));
    let contenders: Vec<_> = contenders.collect();
    tokio::time::sleep(length).await;
    let seconds = clock.end();
    let mut tallies = Vec::new();
    for contender in contenders {
        tallies.push(contender.await.expect("a contender"));
    }
    turn_of(&clock, tallies, seconds)
}

/// Holds the lock over and over.
async fn hold(handle: Lock, clock: Arc<Clock>, held: Duration) -> Tally {
    let mut tally = Tally::default();
    while !clock.is_over() {
        let asked = clock.now();
        let released = match handle.acquire().await {
            Ok(guard) => {
                let granted = clock.now();
                if !held.is_zero() {
                    tokio::time::sleep(held).await;
                }
                tally.times.extend([asked, granted, clock.now()]);
                guard.release().await
            }
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            eprintln!("{error}");
            tally.errors += 1;
        }
        if !held.is_zero() {
            tokio::time::sleep(held).await;
        }
    }
    tally
}
