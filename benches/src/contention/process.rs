//! A program beside this one that runs contests: the ways of another language.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::toolchains::Language;
use super::{Outcome, Workload};
use crate::target::target_folder;

/// How long it may take to start, to connect, and to serve who still waits when time is up.
const PATIENCE: Duration = Duration::from_secs(60);

/// One that runs. It ends with its guard.
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    /// What it complains of.
    log: PathBuf,
}

impl Process {
    pub(super) fn start(language: &Language, port: u16, way: &str) -> Result<Self, String> {
        let log = target_folder().join(format!("{}-{way}.log", language.name));
        let complaints = File::create(&log).map_err(|error| format!("a log: {error}"))?;
        let mut child = language
            .command()
            .args([&port.to_string(), way])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints)
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

    /// Has it connect, calls `start`, and has it contend.
    pub(super) fn contest(
        &mut self,
        workload: Workload,
        start: impl FnOnce(),
    ) -> Result<Outcome, String> {
        let Workload {
            contenders,
            locks,
            seconds,
        } = workload;
        self.say(&format!("{contenders} {locks} {seconds}"))?;
        let ready = self.hear(PATIENCE)?;
        if ready != "ready" {
            return Err(format!("it says {ready:?}"));
        }
        start();
        self.say("go")?;
        let outcome = self.hear(PATIENCE + Duration::from_secs_f64(seconds))?;
        serde_json::from_str(&outcome).map_err(|error| format!("{error} in {outcome:?}"))
    }

    fn say(&mut self, line: &str) -> Result<(), String> {
        let said = writeln!(self.input, "{line}");
        said.map_err(|_| format!("it has ended; {} may say why", self.log.display()))
    }

    fn hear(&self, patience: Duration) -> Result<String, String> {
        let line = self.lines.recv_timeout(patience);
        line.map_err(|_| format!("no answer; {} may say why", self.log.display()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
