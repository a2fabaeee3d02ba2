//! The output and the exit code of a program.

use crate::words;
use serde::Serialize;
use std::io::{self, Write};
use std::process::ExitCode;

/// A report in JSON, for programs.
pub fn json(report: &impl Serialize) -> String {
    serde_json::to_string_pretty(report).unwrap_or_default() + "\n"
}

/// Prints a report, and the reason if a part of it is missing. Returns the exit code.
pub fn end(program: &str, report: &str, missing: Option<&str>, exit: u8) -> ExitCode {
    if let Some(why) = missing {
        eprintln!("{program}: {}", words::name(why.as_bytes()));
    }
    // Ignore errors, because the reader of the output may stop at any line.
    let _ = io::stdout().write_all(report.as_bytes());
    ExitCode::from(exit)
}
