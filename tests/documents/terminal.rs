//! A redis-cli in which what a document shows is typed.

use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use testbed::{Child, Server, patience};

/// A line that redis-cli does not send, and what it says to it at once: so a reply ends here.
const END: &str = "\"";
const SEEN: &str = "Invalid argument(s)";

/// How long a reply may take.
const LONGEST_REPLY: Duration = Duration::from_secs(10);

pub(crate) struct Terminal {
    cli: Child,
    screen: Receiver<String>,
}

impl Terminal {
    pub(crate) fn open(server: &Server, options: &[&str]) -> Self {
        let mut command = Command::new("redis-cli");
        command
            .args(["-p", &server.port().to_string(), "--no-raw"])
            .args(options);
        let (cli, screen) = Child::start(&mut command).expect("redis-cli starts");
        Self { cli, screen }
    }

    pub(crate) fn enter(&mut self, line: &str) {
        let written = self.cli.write(&format!("{line}\n{END}"));
        written.expect("redis-cli reads");
    }

    /// What is answered to the oldest line whose reply was not read yet.
    pub(crate) fn reply(&mut self) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.screen.recv_timeout(patience(LONGEST_REPLY));
            match line.expect("a reply, in time") {
                line if line == SEEN => return lines,
                line if is_duration(&line) => {}
                line => lines.push(line),
            }
        }
    }
}

/// What redis-cli says below a reply that took half a second or more: `(1.52s)`.
fn is_duration(line: &str) -> bool {
    let seconds = line
        .strip_prefix('(')
        .and_then(|line| line.strip_suffix("s)"));
    seconds.is_some_and(|seconds| seconds.parse::<f64>().is_ok())
}
