//! Code that the programs for operators share: options for a server, connections, replies, the programs that use the
//! server, text for a terminal, and output.

// Only programs of this repository use this crate, and each error is a text that says what failed.
#![allow(clippy::missing_errors_doc, clippy::must_use_candidate)]

mod link;
mod options;
mod programs;
mod replies;
pub mod words;

use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

pub use link::{Answer, Link, Target};
pub use options::ServerOptions;
pub use programs::{Program, ProgramGrant, State, Waiter, command, on, waiters_of};
pub use redis::Value;
pub use replies::{
    ClusterNode, Names, Reply, bytes, cluster_nodes, items, lines, names, number, pairs,
    server_version, text,
};

/// A report in JSON, for programs.
pub fn json(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).unwrap_or_default() + "\n"
}

/// Prints a report, and the reason if a part of it is missing. Returns the exit code.
pub fn end(program: &str, report: &str, missing: Option<&str>, exit: u8) -> ExitCode {
    if let Some(why) = missing {
        eprintln!("{program}: {}", words::name(why));
    }
    // Ignore errors, because the reader of the output may stop at any line.
    let _ = io::stdout().write_all(report.as_bytes());
    ExitCode::from(exit)
}
