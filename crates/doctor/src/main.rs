//! Checks running servers with the module for problems that endanger locks: what it found, why it matters, and the
//! line that fixes it. `docs/doctor.md` describes each check.

mod arguments;
mod ask;
mod examine;
mod facts;
mod files;
mod finding;
mod judge;
mod look;
mod report;
mod sessions;
mod users;

use arguments::Arguments;
use clap::Parser;
use redis_lock_tool::{end, json};
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    redis_lock_tool::prepare_tls();
    let (as_json, all) = (arguments.json, arguments.all);
    let looked = arguments.access().and_then(|access| look::look(&access));
    let report = match &looked {
        Ok(facts) => Report::new(facts, judge::judge(facts)),
        Err(why) => Report::nothing(why.clone()),
    };
    let text = match report.error {
        _ if as_json => json(&report),
        Some(_) => String::new(),
        None => report.text(all),
    };
    let missing = report.error.as_ref();
    let missing = missing.map(|why| format!("nothing could be checked: {why}"));
    end("redis-lock-doctor", &text, missing.as_deref(), report.exit)
}
