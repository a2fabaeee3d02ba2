//! The benchmark: what each way of locking costs on this machine.
//!
//! `make bench` runs the quick form, `make bench-full` the full one, which writes `docs/benchmark.md` and
//! `docs/contention.md` with their plots. In every table the contestants run in turn, round by round; a figure is the median of the
//! rounds with the minimum and the maximum. Servers are compared by the CPU time of their main thread, so
//! that clients and a busy machine do not count.

// The figures are for people: rounding does not matter.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

mod callgrind;
mod contenders;
mod contention;
mod facts;
mod growth;
mod instructions;
mod memory;
mod pairs;
mod part;
mod plot;
mod queued;
mod quorum;
mod report;
mod servers;
mod session;
mod sessions;
mod sharing;
mod stats;
mod table;
mod ways;

use std::process::ExitCode;
use std::time::Instant;

use clap::builder::PossibleValuesParser;
use clap::{Parser, ValueEnum};
use part::{Part, Scale};
use report::{BENCHMARK, CONTENTION, Page};
use servers::Program;

/// Measures what each way of locking costs.
#[derive(Parser)]
struct Options {
    #[arg(value_enum, default_value = "quick")]
    form: Form,
    /// Servers by name, such as "redis-7.0 valkey-9.1"; without it the installed one. The first runs
    /// everything; the others pairs, shares, sessions, many locks and the memory of a waiter.
    #[arg(long, value_delimiter = ' ')]
    servers: Vec<String>,
    /// Only these parts.
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(names()))]
    only: Vec<String>,
    /// Only the contests whose titles have these words.
    #[arg(long, default_value = "")]
    contest: String,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Form {
    /// Some minutes of measuring; prints, and writes to target/benchmark/.
    Quick,
    /// The form of the published figures; writes to docs/.
    Full,
    /// Counts the instructions of a pair, and fails when they have grown.
    Check,
    /// Counts them and keeps the figures.
    Keep,
    /// Counts those of pairs on each server, beside pairs of plain keys, with and without AOF and a replica.
    Beside,
}

/// A topic, and how it is measured on these servers, or on the first if it does not compare servers.
type Topic = (&'static str, fn(&[Program], Scale, &Options) -> Part);

/// The pages, and their topics.
const PAGES: [(&Page, &[Topic]); 2] = [
    (
        &BENCHMARK,
        &[
            ("pairs", |all, scale, _| pairs::measure(all, scale)),
            ("repeats", |all, scale, _| pairs::repeats(&all[0], scale)),
            ("memory", |all, scale, _| memory::measure(all, scale)),
            ("growth", |all, scale, _| growth::measure(&all[0], scale)),
            // Up to ten million held locks, beside keys of SET PX.
            ("many", |all, scale, _| growth::many(all, scale)),
            // Readers of one lock, beside exclusive locks.
            ("sharing", |all, scale, _| sharing::measure(all, scale)),
            // Leases that the server renews for sessions.
            ("sessions", |all, scale, _| sessions::measure(all, scale)),
            // Calls that wait in sessions, without connections.
            ("queue", |all, scale, _| queued::measure(&all[0], scale)),
            ("quorum", |all, scale, _| quorum::measure(&all[0], scale)),
        ],
    ),
    (
        &CONTENTION,
        // Contests of clients, beside other libraries.
        &[("contention", |all, scale, options| {
            contention::measure(&all[0], scale, &options.contest)
        })],
    ),
];
/// The part that is a check, and on no page.
const INSTRUCTIONS: &str = "instructions";

fn names() -> impl Iterator<Item = &'static str> {
    let topics = PAGES.iter().flat_map(|(_, topics)| *topics);
    topics.map(|(name, _)| *name).chain([INSTRUCTIONS])
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, words @ ..] = &arguments[..]
        && role == contenders::rust::ROLE
    {
        return contenders::rust::serve(words);
    }
    testbed::without_watchdog();
    match run(&Options::parse()) {
        Ok(text) => {
            println!("{text}");
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

/// The last words of the run; the error says why it has failed.
fn run(options: &Options) -> Result<String, String> {
    let programs = programs(&options.servers)?;
    match options.form {
        Form::Keep => instructions::keep(&programs[0]),
        Form::Check => instructions::check(&programs[0]),
        Form::Beside => instructions::beside_plain_keys(&programs),
        Form::Quick => bench(&programs, Scale::Quick, options),
        Form::Full => bench(&programs, Scale::Full, options),
    }
}

fn bench(programs: &[Program], scale: Scale, options: &Options) -> Result<String, String> {
    let facts = facts::facts(programs);
    println!("{}\n", facts.join("\n"));
    let wants =
        |topic: &str| options.only.is_empty() || options.only.iter().any(|one| one == topic);
    let mut goals = Vec::new();
    for (page, topics) in PAGES {
        let mut all = Part::default();
        for (_, measure) in topics.iter().filter(|(topic, _)| wants(topic)) {
            let start = Instant::now();
            let part = measure(programs, scale, options);
            for table in &part.tables {
                println!("{}", table.text());
            }
            eprintln!("({:.0} s)\n", start.elapsed().as_secs_f64());
            all.add(part);
        }
        // A published page is replaced only as a whole.
        let is_whole = options.contest.is_empty() && topics.iter().all(|(topic, _)| wants(topic));
        if scale == Scale::Quick || is_whole {
            let written = page.write(scale, &all, &facts);
            println!("written: {}\n", written.map_err(|error| error.to_string())?);
        }
        goals.append(&mut all.goals);
    }
    println!("{}", report::goals(&goals));
    if wants(INSTRUCTIONS) {
        return instructions::check(&programs[0]);
    }
    Ok(String::new())
}

/// The servers by name. The first one must be there; others may be missing and are left out with a note.
fn programs(names: &[String]) -> Result<Vec<Program>, String> {
    let names: Vec<&String> = names.iter().filter(|name| !name.is_empty()).collect();
    if names.is_empty() {
        return Ok(vec![Program::installed()?]);
    }
    let mut programs = Vec::new();
    for name in names {
        match Program::named(name) {
            Ok(program) => programs.push(program),
            Err(why) if programs.is_empty() => return Err(format!("{name}: {why}")),
            Err(why) => println!("left out: {name}: {why}"),
        }
    }
    Ok(programs)
}
