//! Job: run once, whatever becomes of its holder.

use crate::program::{Program, holder, signal};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::ExitStatus;
use std::time::{Duration, Instant};
use testbed::{Expect, Server, cmd, within};

const STEPS: u64 = 20;
const PATIENCE: Duration = Duration::from_secs(90);

/// Starts so many processes for a run.
fn start(server: &Server, run: &str, processes: u32, lease: &str) -> Vec<Program> {
    let steps = STEPS.to_string();
    let terms = ["--steps", &steps, "--step-ms", "150", "--lease-ms", lease];
    let program = |number| {
        let name = format!("worker{number}");
        let what = ["job", "--run", run, "--name", &name];
        Program::start(server, &[&what[..], &terms].concat())
    };
    (0..processes).map(program).collect()
}

fn wait_for_step(server: &Server, run: &str, wanted: u64) {
    let key = format!("{{job}}:{run}:step");
    let reached = || {
        let step: Option<u64> =
            redis::from_redis_value(cmd!(server.connection(), "GET", &key).value())
                .expect("a number");
        step >= Some(wanted)
    };
    within(PATIENCE, reached, "the job to go on");
}

/// Each step was done once and in order; by so many holders, each with a higher token.
fn assert_done_once(server: &Server, run: &str, holders: usize) {
    let log = cmd!(
        server.connection(),
        "LRANGE",
        format!("{{job}}:{run}:log"),
        0,
        -1
    )
    .items();
    let (mut steps, mut tokens, mut names) = (Vec::new(), Vec::new(), BTreeSet::new());
    for line in log.into_iter().map(Expect::text) {
        let parts: Vec<_> = line.split(' ').collect();
        steps.push(parts[0].parse::<u64>().expect("a step"));
        tokens.push(parts[1].parse::<u64>().expect("a token"));
        names.insert(parts[2].to_owned());
    }
    assert_eq!(steps, (1..=STEPS).collect::<Vec<_>>());
    assert!(tokens.is_sorted());
    tokens.dedup();
    assert_eq!((tokens.len(), names.len()), (holders, holders));
}

/// How many of the processes came to this end.
fn count(ends: &[(Vec<Value>, ExitStatus)], end: &str) -> usize {
    let is = |(results, status): &&(Vec<Value>, ExitStatus)| {
        results.len() == 1 && results[0]["job"] == end && status.success()
    };
    ends.iter().filter(is).count()
}

fn steps_done(ends: &[(Vec<Value>, ExitStatus)]) -> u64 {
    let results = ends.iter().flat_map(|(results, _)| results);
    results.filter_map(|result| result["steps"].as_u64()).sum()
}

#[test]
fn a_job_runs_once_and_longer_than_its_lease() {
    let server = Server::start();
    let ends: Vec<_> = start(&server, "r", 3, "1500")
        .into_iter()
        .map(Program::end)
        .collect();
    assert_eq!(
        (count(&ends, "completed"), count(&ends, "skipped")),
        (1, 2),
        "{ends:?}"
    );
    assert_eq!(steps_done(&ends), STEPS);
    assert_done_once(&server, "r", 1);
    assert_eq!(cmd!(server.connection(), "EXISTS", "lock:{job}").int(), 0);
}

#[test]
fn when_the_holder_is_killed_another_goes_on_after_the_lease() {
    let server = Server::start();
    // Long enough for a busy machine to renew in time, and waited for once.
    let programs = start(&server, "r", 3, "4000");
    wait_for_step(&server, "r", 5);
    signal(&holder(&server, "lock:{job}"), "KILL");
    let ends: Vec<_> = programs.into_iter().map(Program::end).collect();
    let killed = ends
        .iter()
        .filter(|(results, status)| results.is_empty() && !status.success());
    assert_eq!(killed.count(), 1, "{ends:?}");
    assert_eq!(
        (count(&ends, "completed"), count(&ends, "skipped")),
        (1, 1),
        "{ends:?}"
    );
    let (done, before) = (steps_done(&ends), STEPS - steps_done(&ends));
    println!("{before} steps before the kill, {done} after it");
    assert!(before >= 5 && done > 0);
    assert_done_once(&server, "r", 2);
}

#[test]
fn when_the_holder_is_asked_to_end_another_goes_on_at_once() {
    const LEASE_MS: u32 = 600_000;
    let server = Server::start();
    let programs = start(&server, "r", 2, &LEASE_MS.to_string());
    wait_for_step(&server, "r", 3);
    let waits = || {
        cmd!(server.connection(), "LOCK.WAITERS", "lock:{job}")
            .items()
            .len()
            == 1
    };
    within(PATIENCE, waits, "the other to wait");
    let asked = Instant::now();
    signal(&holder(&server, "lock:{job}"), "TERM");
    let ends: Vec<_> = programs.into_iter().map(Program::end).collect();
    assert!(asked.elapsed() < Duration::from_millis(u64::from(LEASE_MS) / 2));
    let ended = ends.iter().filter(|(results, status)| {
        use std::os::unix::process::ExitStatusExt;
        results.is_empty() && (status.code() == Some(143) || status.signal() == Some(15))
    });
    assert_eq!(
        (ended.count(), count(&ends, "completed")),
        (1, 1),
        "{ends:?}"
    );
    assert_done_once(&server, "r", 2);
    assert_eq!(cmd!(server.connection(), "EXISTS", "lock:{job}").int(), 0);
}
