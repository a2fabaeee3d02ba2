//! Checks running servers with the module for problems that endanger locks: what it found, why it matters, and the
//! line that fixes it. `docs/doctor.md` describes each check.

mod arguments;
mod examine;
mod facts;
mod files;
mod finding;
mod judge;
mod look;
mod programs;
mod report;
mod users;

use arguments::Arguments;
use clap::Parser;
use std::io::{self, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    redis_lock_tool::prepare_tls();
    let looked = arguments.access().and_then(|access| look::look(&access));
    let (text, exit) = match looked {
        Ok(facts) => {
            let report = report::Report::new(&facts, judge::judge(&facts));
            let text = if arguments.json {
                report.json()
            } else {
                report.text(arguments.all)
            };
            (text, report.exit)
        }
        Err(reason) => {
            eprintln!(
                "redis-lock-doctor: nothing could be checked: {}",
                redis_lock_tool::words::name(reason.as_bytes())
            );
            let nothing = arguments.json.then(|| report::nothing(&reason));
            (nothing.unwrap_or_default(), report::COULD_NOT_LOOK)
        }
    };
    // The reader may stop at any line.
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::from(exit)
}
