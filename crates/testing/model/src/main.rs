//! Does the lock over several servers give rising tokens? Searches a model of it to the end, and
//! then leaves out one rule at a time to see what that rule is for.
//!
//! * `setting`, `state`, `action`, `step`: the protocol, its servers, clients and faults;
//! * `server`: a server's steps, by the module's own core;
//! * `normal`, `canonical`: states that differ in nothing that matters are one;
//! * `model`, `search`, `trace`: the checker's side;
//! * `plan`, `report`: what is searched, and what is told of it;
//! * `sessions`: another model, of clients on sessions, played by seeds.

mod action;
mod canonical;
mod counts;
mod model;
mod normal;
mod plan;
mod report;
mod search;
mod server;
mod sessions;
mod setting;
mod state;
mod step;
#[cfg(test)]
mod tests;
mod trace;

use std::process::ExitCode;
use std::time::Duration;

use plan::{Expected, Size};

const USAGE: &str = "\
model [short | full] [--minutes n] [--only text]
  short      the searches that take seconds; without it all that come to an end
  --minutes  then the large ones too, each for at most so long
  --only     the searches whose name has this in it";

/// A search that should end takes far less, even on a slow machine.
const MOST: Duration = Duration::from_secs(30 * 60);

/// The search of sessions, and how long it plays in the short form.
const SESSIONS: &str = "sessions";
const SHORT: Duration = Duration::from_secs(8);

struct Options {
    size: Size,
    large: Duration,
    only: String,
}

fn options(mut words: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options {
        size: Size::Full,
        large: Duration::ZERO,
        only: String::new(),
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "short" => options.size = Size::Short,
            "full" => options.size = Size::Full,
            "--minutes" => {
                let minutes: u64 = words.next()?.parse().ok()?;
                options.large = Duration::from_secs(60 * minutes);
            }
            "--only" => options.only = words.next()?,
            _ => return None,
        }
    }
    if !options.large.is_zero() {
        options.size = Size::Long;
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (planned, left_out): (Vec<_>, Vec<_>) = plan::all()
        .into_iter()
        .filter(|planned| planned.name.contains(&options.only))
        .partition(|planned| planned.size <= options.size);
    report::heading();
    let mut failed = Vec::new();
    let mut told = Vec::new();
    for planned in &planned {
        let (breaks, threads) = match planned.expected {
            // One thread finds the shortest way first.
            Expected::Breaks(rule) => (Some(rule), 1),
            _ => (None, threads),
        };
        let limit = match planned.size {
            Size::Long => options.large,
            _ => MOST,
        };
        let outcome = search::search(&planned.setting, planned.rules, breaks, threads, limit);
        let verdict = report::verdict(planned, &outcome);
        report::row(planned, &outcome, &verdict);
        if verdict.is_err() {
            failed.push(planned.name);
        }
        told.push((planned, outcome));
    }
    report::details(&told);
    if SESSIONS.contains(options.only.as_str()) {
        let limit = match options.size {
            Size::Short => SHORT,
            Size::Full => 3 * SHORT,
            Size::Long => options.large,
        };
        if !sessions::search(limit) {
            failed.push(SESSIONS);
        }
    }
    for planned in left_out {
        println!("left out: {}", planned.name);
    }
    if failed.is_empty() {
        println!("all as expected");
        ExitCode::SUCCESS
    } else {
        println!("not as expected: {}", failed.join("; "));
        ExitCode::FAILURE
    }
}
