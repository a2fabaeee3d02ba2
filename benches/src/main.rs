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
mod contention;
mod facts;
mod growth;
mod instructions;
mod memory;
mod pairs;
mod part;
mod passed;
mod ping;
mod plot;
mod process;
mod queued;
mod quorum;
mod repeats;
mod report;
mod scale;
mod servers;
mod session;
mod sessions;
mod sharing;
mod stats;
mod table;
mod target;
mod toolchains;
mod ways;

use std::process::ExitCode;
use std::time::Instant;

use clap::{Parser, ValueEnum};
use contention::contender;
use instructions::Verdict;
use part::Part;
use report::{BENCHMARK, CONTENTION, Page};
use scale::Scale;
use servers::{Program, Setting};
use target::target_folder;
use testbed::module::root;

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
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Topic>,
    /// Only the contenders in Rust and in these of "java", "python", "go" and "node".
    #[arg(long, value_delimiter = ',')]
    languages: Vec<String>,
    /// Only the contests whose titles have these words.
    #[arg(long, default_value = "")]
    contest: String,
    /// Only these settings are counted by "beside".
    #[arg(long, value_enum, value_delimiter = ',')]
    settings: Vec<Setting>,
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

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Topic {
    Pairs,
    Repeats,
    Memory,
    Growth,
    /// Up to ten million held locks, beside keys of SET PX.
    Many,
    /// Readers of one lock, beside exclusive locks.
    Sharing,
    /// Leases that the server renews for sessions.
    Sessions,
    /// Calls that wait in sessions, without connections.
    Queue,
    /// Contests of clients, beside other libraries.
    Contention,
    Quorum,
    Instructions,
}

/// Measures a topic on these servers, or on the first if it does not compare servers.
type Measure = fn(&[Program], &Scale, &Options) -> Part;

/// The topics, the page of each, and how it is measured.
#[rustfmt::skip]
const TOPICS: [(Topic, &Page, Measure); 10] = [
    (Topic::Pairs, &BENCHMARK, |all, scale, _| pairs::measure(all, scale)),
    (Topic::Repeats, &BENCHMARK, |all, scale, _| repeats::measure(&all[0], scale)),
    (Topic::Memory, &BENCHMARK, |all, scale, _| memory::measure(all, scale)),
    (Topic::Growth, &BENCHMARK, |all, scale, _| growth::measure(&all[0], scale)),
    (Topic::Many, &BENCHMARK, |all, scale, _| growth::many(all, scale)),
    (Topic::Sharing, &BENCHMARK, |all, scale, _| sharing::measure(all, scale)),
    (Topic::Sessions, &BENCHMARK, |all, scale, _| sessions::measure(all, scale)),
    (Topic::Queue, &BENCHMARK, |all, scale, _| queued::measure(&all[0], scale)),
    (Topic::Contention, &CONTENTION, |all, scale, options| {
        contention::measure(&all[0], scale, &options.languages, &options.contest)
    }),
    (Topic::Quorum, &BENCHMARK, |all, scale, _| quorum::measure(&all[0], scale)),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments[..] {
        [role, ports @ ..] if role == quorum::ROLE => return quorum::hold(ports),
        [role, words @ ..] if role == contender::ROLE => return contender::serve(words),
        [role, port, key] if role == sessions::ROLE => return sessions::hold(port, key),
        _ => {}
    }
    testbed::without_watchdog();
    let options = Options::parse();
    match run(&options) {
        Ok(code) => code,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, String> {
    let programs = programs(&options.servers)?;
    let first = &programs[0];
    match options.form {
        Form::Keep => {
            println!("{}", instructions::keep(first, &target_folder())?);
            Ok(ExitCode::SUCCESS)
        }
        Form::Check => Ok(judge(&instructions::check(first, &target_folder()))),
        Form::Beside => {
            let all = options.settings.is_empty().then_some(&Setting::ALL[..]);
            let settings = all.unwrap_or(&options.settings);
            instructions::beside_plain_keys(&programs, settings, &target_folder())?;
            Ok(ExitCode::SUCCESS)
        }
        Form::Quick => bench(&programs, &Scale::quick(), options),
        Form::Full => bench(&programs, &Scale::full(), options),
    }
}

fn bench(programs: &[Program], scale: &Scale, options: &Options) -> Result<ExitCode, String> {
    let facts = facts::facts(programs);
    println!("{}\n", facts.join("\n"));
    let wants = |topic| options.only.is_empty() || options.only.contains(&topic);
    let mut pages = [
        (&BENCHMARK, Part::default()),
        (&CONTENTION, Part::default()),
    ];
    for (topic, page, measure) in TOPICS {
        if !wants(topic) {
            continue;
        }
        let start = Instant::now();
        let part = measure(programs, scale, options);
        for table in &part.tables {
            println!("{}", table.text());
        }
        eprintln!("({:.0} s)\n", start.elapsed().as_secs_f64());
        let own = pages.iter_mut().find(|(one, _)| one.name == page.name);
        own.expect("each is on a page").1.add(part);
    }
    println!("{}", report::goals(pages.iter().map(|(_, part)| part)));
    let (folder, form) = if scale.is_full {
        (root().join("docs"), "make bench-full")
    } else {
        (target_folder(), "make bench")
    };
    for (page, part) in pages {
        let mut topics = TOPICS.iter().filter(|(_, on, _)| on.name == page.name);
        // A published page is replaced only as a whole.
        let is_whole = options.languages.is_empty()
            && options.contest.is_empty()
            && topics.all(|(topic, ..)| wants(*topic));
        if scale.is_full && !is_whole {
            continue;
        }
        let facts = [&facts[..], &part.facts].concat();
        page.write(&folder, &part, &facts, form)
            .map_err(|error| error.to_string())?;
        println!(
            "written: {0}/{1}.md, {0}/{1}.svg",
            folder.display(),
            page.name
        );
    }
    if wants(Topic::Instructions) {
        return Ok(judge(&instructions::check(&programs[0], &target_folder())));
    }
    Ok(ExitCode::SUCCESS)
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

fn judge(verdict: &Verdict) -> ExitCode {
    let (Verdict::Passed(text) | Verdict::Skipped(text) | Verdict::Failed(text)) = verdict;
    println!("{text}");
    ExitCode::from(u8::from(matches!(verdict, Verdict::Failed(_))))
}
