//! From the crash of a holder until another client can have its lock, beside Redisson's watchdog.

use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Expect, Server, Talk, cmd, post, waiters, within};

use crate::contenders::{Languages, Task, Team};
use crate::part::Limit::AtMost;
use crate::part::{Goal, Part};
use crate::scale::Scale;
use crate::servers::Program;
use crate::stats::Rounds;
use crate::table::Table;

const LEASE_MS: u32 = 2_000;
/// The lease of Redisson's watchdog, as it ships.
const WATCHDOG_MS: u32 = 30_000;
const PATIENCE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);

pub(super) fn measure(program: &Program, languages: &Languages, scale: Scale) -> Part {
    let [crashes, watchdog_crashes] = [scale.of(10, 40), scale.of(3, 10)];
    let mut about = format!(
        "How long do others wait after a crash? They wait for one lease, which can be short because the server \
         renews it. Processes are killed (kill -9) at moments spread over the time between two renewals. {crashes} \
         of them have a lease of {LEASE_MS} ms, and the time ends with the next client's grant.",
    );
    if languages["java"].is_ok() {
        let theirs = format!(
            " {watchdog_crashes} have a lock of Redisson, whose watchdog renews its default lease of {WATCHDOG_MS} \
             ms, and the time ends when the key is gone.",
        );
        about.push_str(&theirs);
    }
    let mut table = Table::of(
        program,
        "From a crash until another can have the lock, which the server renews for a session",
        &about,
        &["min s", "median s", "max s"],
    );
    // Redisson's watchdog renews a lock without a lease.
    let ours = Task {
        held_ms: HOUR.as_millis() as u32,
        lease_ms: LEASE_MS,
        ..Task::ALONE
    };
    let theirs = Task {
        language: "java",
        way: "rlock",
        lease_ms: 0,
        ..ours
    };
    let rows = [
        ("LOCK.ACQUIRE SESSION", ours, LEASE_MS, crashes),
        ("Redisson: RLock", theirs, WATCHDOG_MS, watchdog_crashes),
    ];
    for (name, task, lease_ms, crashes) in rows {
        let seconds = all(program, languages, task, lease_ms, crashes);
        table.row(
            name,
            0,
            seconds.map(|seconds| seconds.map(Rounds::from).into()),
        );
    }
    let what = "longest time from a crash to the next grant, lease of 2 s, s";
    let goal = Goal::new(what, AtMost(2.1), table.figure(0, 2));
    Part::new(table, vec![goal])
}

/// The minimum, median and maximum seconds of so many crashes, at every moment between two renewals.
fn all(
    program: &Program,
    languages: &Languages,
    task: Task<'_>,
    lease_ms: u32,
    crashes: usize,
) -> Result<[f64; 3], String> {
    let server = &program.start();
    let seconds: Vec<_> = thread::scope(|scope| {
        let crashes: Vec<_> = (0..crashes)
            .map(|number| {
                let after = number as f64 / crashes as f64 * f64::from(lease_ms) / 3000.0;
                scope.spawn(move || {
                    let key = format!("crash-{number}");
                    let task = Task { key: &key, ..task };
                    let holder = Team::start(languages, 1, slice::from_ref(server), &task)?;
                    crash(server, &format!("{key}:0"), holder, 1.0 + after)
                })
            })
            .collect();
        let crashes = crashes.into_iter();
        crashes
            .map(|crash| crash.join().expect("a crash"))
            .collect::<Result<_, String>>()
    })?;
    let seconds = seconds.into_iter().fold(Rounds::default(), |mut all, one| {
        all.push(one);
        all
    });
    let spread = seconds.spread().ok_or("no crash")?;
    Ok([spread.low, spread.median, spread.high])
}

/// The seconds from the kill until another can have the lock.
fn crash(server: &Server, key: &str, holder: Team, held_for: f64) -> Result<f64, String> {
    holder.begin(HOUR.as_secs_f64())?;
    let mut other = server.connection();
    let held = || cmd!(other, "EXISTS", key).int() == 1;
    within(PATIENCE, held, "a holder");
    let ours = cmd!(other, "TYPE", key).text() == "RedisLock";
    let mut next = server.connection();
    if ours {
        post!(next, "LOCK.ACQUIRE", key, "next", "BLOCK", 0);
    }
    thread::sleep(Duration::from_secs_f64(held_for));
    if ours {
        assert_eq!(waiters(&mut other, key).len(), 1, "it is held");
    }
    let start = Instant::now();
    drop(holder);
    if ours {
        next.receive().grant();
    } else {
        let free = || cmd!(other, "EXISTS", key).int() == 0;
        within(PATIENCE, free, "its end");
    }
    Ok(start.elapsed().as_secs_f64())
}
