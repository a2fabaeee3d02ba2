//! A child process that reads its orders from lines of its standard input, and answers with lines.

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use testbed::Child;

use crate::facts::target_folder;

/// A running process, which is killed when this is dropped.
pub(super) struct Process {
    pub(super) child: Child,
    lines: Receiver<String>,
    /// Its standard error.
    log: PathBuf,
}

impl Process {
    /// Starts it; its standard error goes to a log of this name.
    pub(super) fn start(command: &mut Command, name: &str) -> Result<Self, String> {
        let log = target_folder().join(format!("{name}.log"));
        let errors = File::create(&log).map_err(|error| format!("a log: {error}"))?;
        let started = Child::start(command.stderr(errors));
        let (child, lines) = started.map_err(|error| format!("it does not start: {error}"))?;
        Ok(Self { child, lines, log })
    }

    pub(super) fn send(&self, line: &str) -> Result<(), String> {
        let sent = self.child.write(line);
        sent.map_err(|_| format!("it has ended; {} may say why", self.log.display()))
    }

    pub(super) fn receive(&self, timeout: Duration) -> Result<String, String> {
        let line = self.lines.recv_timeout(timeout);
        line.map_err(|_| format!("no answer; {} may say why", self.log.display()))
    }
}
