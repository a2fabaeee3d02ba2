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
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    redis_lock_tool::prepare_tls();
    let looked = arguments.access().and_then(|access| look::look(&access));
    let missing = looked.as_ref().err();
    let missing = missing.map(|why| format!("nothing could be checked: {why}"));
    let (text, exit) = match &looked {
        Ok(facts) => {
            let report = report::Report::new(facts, judge::judge(facts));
            (report.print(arguments.json, arguments.all), report.exit)
        }
        Err(why) if arguments.json => (report::nothing(why), report::COULD_NOT_LOOK),
        Err(_) => (String::new(), report::COULD_NOT_LOOK),
    };
    redis_lock_tool::end("redis-lock-doctor", &text, missing.as_deref(), exit)
}
