//! A child process that reads its orders from lines of its standard input, and answers with lines.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use crate::facts::target_folder;

/// A running process, which is killed when this is dropped.
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// Its standard error.
    log: PathBuf,
}

impl Process {
    /// Starts it; its standard error goes to a log of this name.
    pub(super) fn start(command: &mut Command, name: &str) -> Result<Self, String> {
        let log = target_folder().join(format!("{name}.log"));
        let errors = File::create(&log).map_err(|error| format!("a log: {error}"))?;
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .map_err(|error| format!("it does not start: {error}"))?;
        let (input, output) = child
            .stdin
            .take()
            .zip(child.stdout.take())
            .ok_or("no pipes to it")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            input,
            lines,
            log,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn send(&mut self, line: &str) -> Result<(), String> {
        let sent = writeln!(self.input, "{line}");
        sent.map_err(|_| format!("it has ended; {} may say why", self.log.display()))
    }

    pub(super) fn receive(&self, timeout: Duration) -> Result<String, String> {
        let line = self.lines.recv_timeout(timeout);
        line.map_err(|_| format!("no answer; {} may say why", self.log.display()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
