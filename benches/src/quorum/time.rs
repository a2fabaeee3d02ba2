//! The time of lock and unlock, with no, one and two servers down.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{SERVERS, WAYS, servers};
use crate::process::Process;
use crate::scale::Scale;
use crate::servers::Program;
use crate::stats::{interleave, percentiles};
use crate::table::Table;
use crate::toolchains::Language;

/// How long a process may take to answer, in addition to the time of the measurement.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The times of the pairs of a process.
#[derive(Deserialize, Serialize)]
pub(super) struct Times {
    pub(super) pairs_us: Vec<f64>,
    pub(super) errors: usize,
}

const COLUMNS: [&str; 4] = ["median us", "p99 us", "pairs/s", "errors"];

pub(super) fn table(program: &Program, scale: &Scale, go: &Result<Language, String>) -> Table {
    let mut table = Table::of(
        program,
        format!("Lock and unlock on {SERVERS} servers, of which some are down"),
        "The cost of a lock on several servers, all of them up or some down. One client for one lock, in its own process, without contention. A server that is down has been \
         killed: its port refuses connections. This project's lock takes one round more than redsync's, \
         which has no token. Redsync as it ships waits for the answers of all servers, and go-redis tries \
         one that is down several times, with pauses. Set to be quick, both are turned off (WithFailFast, \
         MaxRetries, DialerRetries).",
        &COLUMNS,
    );
    let mut servers = servers(program);
    let register = program.start();
    let mut started = Vec::new();
    for (number, (way, name)) in WAYS.iter().enumerate() {
        match way.start(&servers, &register, go, &format!("quorum-{number}")) {
            Ok(process) => started.push((number, *name, process)),
            Err(why) => table.left_out(*name, why),
        }
    }
    let seconds = scale.quorum_seconds;
    for down in 0..=SERVERS / 2 {
        if down > 0 {
            servers[down - 1].kill9();
        }
        // The first round shows the clients which servers are down, and does not count.
        let figures = interleave(scale.quorum_rounds, &mut started, |(number, _, process)| {
            pairs(process, *number, seconds).unwrap_or_else(|why| {
                eprintln!("{why}");
                [f64::NAN; COLUMNS.len()]
            })
        });
        let names = started.iter();
        let names = names.map(|(_, name, _)| format!("{name}, {down} down"));
        table = table.rows(names, &figures);
    }
    table
}

/// The figures of one round.
fn pairs(
    process: &mut Process,
    number: usize,
    seconds: f64,
) -> Result<[f64; COLUMNS.len()], String> {
    process.send(&format!("pairs pair-{number} {seconds}"))?;
    let answer = process.receive(TIMEOUT + Duration::from_secs_f64(seconds))?;
    let times: Result<Times, _> = serde_json::from_str(&answer);
    let mut times = times.map_err(|error| format!("{error} in {answer:?}"))?;
    if times.pairs_us.is_empty() {
        return Err("no lock was obtained".into());
    }
    let [median, p99, _] = percentiles(&mut times.pairs_us);
    let rate = times.pairs_us.len() as f64 / seconds;
    Ok([median, p99, rate, times.errors as f64])
}
