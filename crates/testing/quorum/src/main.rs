//! Runs contenders for locks that are kept on five servers, while servers and contenders are killed,
//! stopped and cut off, and checks what they tell: tokens rise, holds do not overlap, late writes are
//! refused.

mod administrator;
mod clock;
mod configuration;
mod contender;
mod disturbance;
mod note;
mod process;
mod record;
mod round;
mod servers;
mod table;

use clap::{Parser, Subcommand};
use configuration::{ALL, Configuration};
use rand::rngs::{StdRng, SysRng};
use rand::{Rng, SeedableRng, TryRng};
use std::process::ExitCode;
use std::time::Duration;
use table::Sum;

/// Shows what a lock on five servers is worth under faults.
#[derive(Parser)]
struct Arguments {
    /// How long contenders work in all.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Repeats the choices of an earlier run, though not their timing.
    #[arg(long)]
    seed: Option<u64>,
    /// Only these configurations.
    names: Vec<String>,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Subcommand)]
enum Role {
    /// Is a contender: what this program starts itself as.
    #[command(hide = true)]
    Contend { orders: String },
}

/// The longest that a round lasts, and so the longest that there are before its history is checked.
const LONGEST_ROUND: u64 = 15;

/// The shortest time in which there is some of everything, mostly.
const SHORTEST_ROUND: u64 = 4;

/// How many rounds a configuration gets at first until all that it is for has happened.
const MOST_FIRST_ROUNDS: usize = 10;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Role::Contend { orders }) = &arguments.role {
        return match contender::contend(orders) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("a contender: {why}");
                ExitCode::FAILURE
            }
        };
    }
    testbed::without_watchdog();
    let seed = arguments
        .seed
        .unwrap_or_else(|| SysRng.try_next_u64().expect("the system's random bytes"));
    println!("seed {seed}");
    let names = &arguments.names;
    if let Some(name) = names
        .iter()
        .find(|name| ALL.iter().all(|c| c.name != **name))
    {
        println!("no such configuration: {name}");
        return ExitCode::FAILURE;
    }
    let configurations: Vec<_> = ALL
        .iter()
        .filter(|c| names.is_empty() || names.iter().any(|name| name == c.name))
        .collect();
    let right = configurations.iter().filter(|c| !c.is_wrong()).count() as u64;
    let share = arguments.seconds / right.max(1);
    let mut random = StdRng::seed_from_u64(seed);
    let sums: Vec<_> = configurations
        .into_iter()
        .map(|configuration| (configuration, play(configuration, share, &mut random)))
        .collect();
    if table::print(&sums) {
        ExitCode::SUCCESS
    } else {
        println!("\nNOT PASSED: --seed {seed} repeats the choices");
        ExitCode::FAILURE
    }
}

/// Rounds for so many seconds, and some more where something has not happened yet that should. One
/// that is there to be found out gets no more than it takes.
fn play(configuration: &Configuration, seconds: u64, random: &mut StdRng) -> Sum {
    let mut sum = Sum::default();
    let mut left = if configuration.is_wrong() { 0 } else { seconds };
    for round in 0.. {
        let lacks = round == 0 || !sum.missing(configuration).is_empty();
        if left == 0 && !(lacks && round < MOST_FIRST_ROUNDS) {
            break;
        }
        let length = left.clamp(SHORTEST_ROUND, LONGEST_ROUND);
        left = left.saturating_sub(length);
        let seed = random.next_u64();
        let outcomes = round::run(configuration, seed, Duration::from_secs(length));
        sum.add(configuration, seed, &outcomes);
    }
    sum
}
