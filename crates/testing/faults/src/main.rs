//! Runs clients of the lock against real servers while these are killed, stopped, cut off, filled
//! and moved, and checks that a correct lock could have answered as these did.

mod administrator;
mod client;
mod configuration;
mod deployment;
mod fault;
mod line;
mod mutants;
mod observer;
mod round;
mod stage;
mod table;
mod words;

use clap::Parser;
use configuration::Configuration;
use rand::rngs::{StdRng, SysRng};
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng, TryRng};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use table::Table;

/// Shows what the lock's guarantees are worth under faults.
#[derive(Parser)]
struct Arguments {
    /// Goes on until so many seconds have passed and each configuration has had a round.
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// Repeats the choices of an earlier run, though not their timing.
    #[arg(long)]
    seed: Option<u64>,
    /// Plays so many configurations, drawn by the seed.
    #[arg(long)]
    some: Option<usize>,
    /// Breaks the module on purpose instead, in many ways, and expects each to be noticed.
    #[arg(long)]
    mutants: bool,
    /// Only these configurations, or mutants.
    names: Vec<String>,
}

/// How many rounds a configuration gets at first until all that it is for has happened.
const MOST_FIRST_ROUNDS: usize = 4;

/// How many rounds may pass until a mutant is noticed.
const SEEDS: u64 = 6;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments
        .seed
        .unwrap_or_else(|| SysRng.try_next_u64().expect("the system's random bytes"));
    println!("seed {seed}");
    if arguments.mutants {
        return verdict(mutants::run(seed, &arguments.names), seed);
    }
    let mut random = StdRng::seed_from_u64(seed);
    let mut configurations = configuration::all();
    if !arguments.names.is_empty() {
        for name in &arguments.names {
            if configurations.iter().all(|c| c.name != name) {
                println!("no such configuration: {name}");
                return ExitCode::FAILURE;
            }
        }
        configurations.retain(|c| arguments.names.iter().any(|name| name == c.name));
    }
    if let Some(some) = arguments.some {
        configurations.shuffle(&mut random);
        configurations.truncate(some);
    }
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut table = Table::default();
    let mut play = |configuration: &Configuration| {
        let seed = random.next_u64();
        match round::run(configuration, seed) {
            Ok(outcomes) => table.add(configuration, seed, &outcomes),
            Err(reason) => table.leave_out(configuration, reason),
        }
        table.lacks(configuration)
    };
    for configuration in &configurations {
        // What depends on luck may need another round.
        let _ = (0..MOST_FIRST_ROUNDS).find(|_| !play(configuration));
    }
    while Instant::now() < end {
        for configuration in &configurations {
            if Instant::now() < end {
                play(configuration);
            }
        }
    }
    verdict(table.print(&configurations), seed)
}

fn verdict(passed: bool, seed: u64) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        println!("\nNOT PASSED: --seed {seed} repeats the choices");
        ExitCode::FAILURE
    }
}
