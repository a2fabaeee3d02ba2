//! Plays the configurations of a workload until all that they are for has happened and the time is up.

use crate::table::Table;
use crate::workload::Workload;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};

/// How many runs a configuration gets at first until all that it is for has happened, which depends on
/// luck.
const MOST_FIRST_RUNS: usize = 10;

/// The runs to play, and for how long.
#[derive(Default)]
pub struct Choice {
    /// It continues until so many seconds have passed and each configuration has had a run.
    pub seconds: u64,
    /// Decides all choices.
    pub seed: u64,
    /// Only so many configurations, drawn by the seed.
    pub some: Option<usize>,
    /// Only these configurations; all when it is empty.
    pub names: Vec<String>,
}

/// Plays a workload and prints what came of it; whether it passed.
#[must_use]
pub fn play(workload: Workload, choice: &Choice) -> bool {
    let mut random = StdRng::seed_from_u64(choice.seed);
    let Workload {
        columns,
        mut configurations,
    } = workload;
    for name in &choice.names {
        if configurations.iter().all(|known| known.name() != name) {
            println!("no such configuration: {name}");
            return false;
        }
    }
    let is_meant = |name: &str| choice.names.is_empty() || choice.names.iter().any(|n| n == name);
    configurations.retain(|known| is_meant(known.name()));
    if let Some(some) = choice.some {
        configurations.shuffle(&mut random);
        configurations.truncate(some);
    }
    let end = Instant::now() + Duration::from_secs(choice.seconds);
    let mut table = Table::new(columns, configurations);
    for index in 0..table.len() {
        let mut lacks = || {
            table.play(index, random.next_u64());
            table.lacks(index)
        };
        let _ = (0..MOST_FIRST_RUNS).find(|_| !lacks());
    }
    // What is wrong on purpose has been found out by now, or never will be.
    let lasting: Vec<_> = (0..table.len())
        .filter(|index| table.lasts(*index))
        .collect();
    for index in lasting.into_iter().cycle() {
        if Instant::now() >= end {
            break;
        }
        table.play(index, random.next_u64());
    }
    table.print()
}
