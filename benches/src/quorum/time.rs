//! The time of lock and unlock, with no, one and two servers down.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use testbed::Server;

use super::{SERVERS, WAYS, servers};
use crate::process::Process;
use crate::scale::Scale;
use crate::servers::Program;
use crate::stats::{Rounds, order};
use crate::table::Table;
use crate::toolchains::Language;

/// How long a process may take to answer, in addition to the time of the measurement.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The times of the pairs of a process.
#[derive(Deserialize, Serialize)]
pub(super) struct Times {
    pub(super) pairs: usize,
    pub(super) median_us: f64,
    pub(super) p99_us: f64,
    pub(super) errors: usize,
}

const COLUMNS: [&str; 4] = ["median us", "p99 us", "pairs/s", "errors"];

struct Contestant {
    process: Result<Process, String>,
    /// By servers down.
    figures: [[Rounds; COLUMNS.len()]; SERVERS / 2 + 1],
}

pub(super) fn table(program: &Program, scale: &Scale, go: &Result<Language, String>) -> Table {
    let mut servers = servers(program);
    let register = program.start();
    let mut contestants: Vec<Contestant> = WAYS
        .iter()
        .enumerate()
        .map(|(number, (way, _))| Contestant {
            process: way.start(&servers, &register, go, &format!("quorum-{number}")),
            figures: Default::default(),
        })
        .collect();
    for down in 0..=SERVERS / 2 {
        if down > 0 {
            servers[down - 1].kill9();
        }
        measure(&mut contestants, down, scale);
    }
    write(program, &contestants, &servers)
}

fn measure(contestants: &mut [Contestant], down: usize, scale: &Scale) {
    // The first round shows the clients which servers are down, and does not count.
    for round in 0..=scale.quorum_rounds {
        for index in order(round, contestants.len()) {
            let contestant = &mut contestants[index];
            let Ok(process) = &mut contestant.process else {
                continue;
            };
            match pairs(process, index, scale.quorum_seconds) {
                Ok(times) if round > 0 => {
                    let figures = [
                        times.median_us,
                        times.p99_us,
                        times.pairs as f64 / scale.quorum_seconds,
                        times.errors as f64,
                    ];
                    let kept = contestant.figures[down].iter_mut();
                    kept.zip(figures)
                        .for_each(|(kept, figure)| kept.push(figure));
                }
                Ok(_) => {}
                Err(why) => contestant.process = Err(why),
            }
        }
    }
}

fn pairs(process: &mut Process, number: usize, seconds: f64) -> Result<Times, String> {
    process.send(&format!("pairs pair-{number} {seconds}"))?;
    let answer = process.receive(TIMEOUT + Duration::from_secs_f64(seconds))?;
    let times: Times =
        serde_json::from_str(&answer).map_err(|error| format!("{error} in {answer:?}"))?;
    if times.pairs == 0 {
        return Err("no lock was obtained".into());
    }
    Ok(times)
}

fn write(program: &Program, contestants: &[Contestant], servers: &[Server]) -> Table {
    let mut table = Table::new(
        format!(
            "Lock and unlock on {} servers, of which some are down: {}",
            servers.len(),
            program.version
        ),
        "One client for one lock, each in a process of its own, nobody else there. A server that is \
         down has been killed: its port refuses connections. This project's lock takes one round more \
         than redsync's, which has no token. Redsync as it ships waits for the answers of all servers, \
         and go-redis tries one that is down several times, with pauses; set to be quick, \
         both are turned off (WithFailFast, MaxRetries, DialerRetries).",
        &COLUMNS,
    );
    for ((_, name), contestant) in WAYS.iter().zip(contestants) {
        if let Err(why) = &contestant.process {
            table.left_out(*name, why.clone());
            continue;
        }
        for (down, figures) in contestant.figures.iter().enumerate() {
            let spreads = figures.iter().map(Rounds::spread).collect();
            table.row(format!("{name}, {down} down"), spreads);
        }
    }
    table
}
