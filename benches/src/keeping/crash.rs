//! From the crash of a keeper to the next one's grant.

use std::env;
use std::io::stdin;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::{Duration, Instant};

use testbed::{Expect, Server, Talk, cmd, post, waiters};

use super::SILENCE_MS;
use crate::part::{Goal, Part};
use crate::process::Process;
use crate::scale::Scale;
use crate::servers::Program;
use crate::stats::{Spread, percentile};
use crate::table::Table;

/// The argument that starts this program as a keeper.
pub(crate) const ROLE: &str = "keep-a-lock";

const LEASE_MS: u32 = 2_000;
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps a lock of the server at this port until its input ends or it is killed.
pub(crate) fn keep(port: &str, key: &str) -> ExitCode {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}/"));
    let Ok(mut connection) = client.and_then(|client| client.get_connection()) else {
        return ExitCode::FAILURE;
    };
    let grant = cmd!(
        connection,
        "LOCK.ACQUIRE",
        key,
        "keeper",
        "PX",
        LEASE_MS,
        "KEEP",
        SILENCE_MS
    );
    println!("{}", grant.grant().token);
    for _ in stdin().lines() {}
    ExitCode::SUCCESS
}

pub(super) fn measure(program: &Program, scale: &Scale) -> Part {
    let server = program.start();
    let mut seconds: Vec<f64> = thread::scope(|scope| {
        let crashes: Vec<_> = (0..scale.crashes)
            .map(|number| {
                // At every moment between two renewals.
                let after = number as f64 / scale.crashes as f64 * f64::from(LEASE_MS) / 3000.0;
                let server = &server;
                scope.spawn(move || crash(server, number, 1.0 + after))
            })
            .collect();
        let crashes = crashes.into_iter();
        crashes
            .map(|crash| crash.join().expect("a crash"))
            .collect()
    });
    seconds.sort_by(f64::total_cmp);
    let [least, median, most] = [0.0, 0.5, 1.0].map(|part| percentile(&seconds, part));
    let mut table = Table::new(
        format!(
            "From a keeper's crash to the next grant: {}",
            program.version
        ),
        &format!(
            "{} processes, each with a kept lease of {LEASE_MS} ms, are killed (kill -9) at moments spread over a \
             third of it, while another client waits.",
            seconds.len()
        ),
        &["least s", "median s", "most s"],
    );
    table.row(
        "LOCK.ACQUIRE KEEP",
        [least, median, most].map(Spread::of).to_vec(),
    );
    let what = "s from a crash to the next grant, lease of 2 s, most";
    Part {
        tables: vec![table],
        goals: vec![Goal::at_most(what, 2.1, Spread::of(most))],
        ..Part::default()
    }
}

/// The seconds from the kill to the waiting client's grant.
fn crash(server: &Server, number: usize, kept_for: f64) -> f64 {
    let key = format!("lock:{number}");
    let exe = env::current_exe().expect("this program");
    let mut command = Command::new(exe);
    command.args([ROLE, &server.port().to_string(), &key]);
    let keeper = Process::start(&mut command, &format!("keeper-{number}")).expect("a keeper");
    keeper.receive(PATIENCE).expect("its grant");
    let mut next = server.connection();
    post!(next, "LOCK.ACQUIRE", key, "next", "BLOCK", 0);
    thread::sleep(Duration::from_secs_f64(kept_for));
    let mut other = server.connection();
    assert_eq!(waiters(&mut other, &key).len(), 1, "it is kept");
    let start = Instant::now();
    drop(keeper);
    next.receive().grant();
    start.elapsed().as_secs_f64()
}
