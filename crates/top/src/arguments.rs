//! The arguments of the command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use redis_lock_tool::ServerOptions;
use std::time::Duration;

/// Shows the locks of a server, or of all primaries of a cluster.
#[derive(Parser)]
#[command(name = "redis-lock-top", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) server: ServerOptions,
    /// How many milliseconds pass between two snapshots.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..))]
    every: u64,
    #[command(subcommand)]
    pub(crate) what: Option<What>,
}

/// The action instead of the live view.
#[derive(Subcommand)]
pub(crate) enum What {
    /// Prints all held locks once.
    Locks(Listing),
}

/// How the locks are printed.
#[derive(Args)]
pub(crate) struct Listing {
    /// Locks of one owner, or of one program, together.
    #[arg(long, value_enum, default_value_t = By::Owner)]
    pub(crate) by: By,
    /// In JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The property by which locks are grouped.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    Owner,
    Session,
}

impl Arguments {
    /// The time between two snapshots.
    pub(crate) fn every(&self) -> Duration {
        Duration::from_millis(self.every)
    }
}
