//! What the program is asked on its command line.

use clap::Parser;
use redis::ConnectionInfo;
use redis_lock_server_options::ServerOptions;
use std::time::Duration;

/// Shows the locks of a server, or of all primaries of a cluster.
#[derive(Parser)]
#[command(name = "redis-lock-top", version)]
pub(crate) struct Arguments {
    #[command(flatten)]
    server: ServerOptions,
    /// How many milliseconds pass between two snapshots.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(100..))]
    every: u64,
}

impl Arguments {
    /// How to reach the server.
    pub(crate) fn server(&self) -> Result<ConnectionInfo, String> {
        self.server.server()
    }

    /// The time between two snapshots.
    pub(crate) fn every(&self) -> Duration {
        Duration::from_millis(self.every)
    }
}
