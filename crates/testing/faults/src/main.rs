//! The program of the fault runs: plays a workload, or looks whether mutants of the module are noticed.

use clap::{Args, Parser};
use faults::{Choice, Workload};
use std::process::ExitCode;

/// Shows what the lock's guarantees are worth under faults.
#[derive(Parser)]
enum Program {
    /// Clients of one server, of a primary with replicas, or of a cluster.
    Locks(Options),
    /// Contenders for locks that five servers keep by majority.
    Quorum(Options),
    /// Breaks the module on purpose, in many ways: the workload `locks`, or tests, must notice each.
    Mutants(Common),
    /// Is a contender for the quorum's locks: what this program starts itself as.
    #[command(hide = true)]
    Contend { orders: String },
}

#[derive(Args)]
struct Options {
    /// Continues until so many seconds have passed and each configuration has had a run.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Plays so many configurations, drawn by the seed.
    #[arg(long)]
    some: Option<usize>,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct Common {
    /// Only these configurations, or mutants.
    names: Vec<String>,
}

/// A program that runs for so many seconds does not hang.
const LONG: u64 = 600;

fn main() -> ExitCode {
    match Program::parse() {
        Program::Locks(options) => play(|_| faults::locks(), options),
        Program::Quorum(options) => play(faults::quorum, options),
        Program::Contend { orders } => ended("a contender", faults::contend(&orders)),
        Program::Mutants(common) => {
            let choice = common.choice();
            verdict(faults::mutants(&choice), &choice)
        }
    }
}

/// Plays a workload that is made for so many seconds.
fn play(workload: impl Fn(u64) -> Workload, options: Options) -> ExitCode {
    let choice = Choice {
        seconds: options.seconds,
        some: options.some,
        ..options.common.choice()
    };
    if choice.seconds >= LONG {
        testbed::without_watchdog();
    }
    verdict(faults::play(workload(choice.seconds), &choice), &choice)
}

/// The result of a process of a run.
fn ended(who: &str, worked: Result<(), String>) -> ExitCode {
    match worked {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{who}: {why}");
            ExitCode::FAILURE
        }
    }
}

fn verdict(passed: bool, choice: &Choice) -> ExitCode {
    if passed {
        ExitCode::SUCCESS
    } else {
        println!("\nNOT PASSED: SEED={} repeats the choices", choice.seed);
        ExitCode::FAILURE
    }
}

impl Common {
    fn choice(self) -> Choice {
        Choice {
            seed: testbed::traffic::seed(),
            names: self.names,
            ..Choice::default()
        }
    }
}
