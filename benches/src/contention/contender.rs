//! A program of another language that takes turns in contests.

use std::time::Duration;

use testbed::Server;

use super::contestant::{Outcome, Runner};
use crate::process::Process;
use crate::scale::Workload;
use crate::toolchains::Language;

/// How long it may take to start, to connect, and to finish after the time is up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A running program.
pub(super) struct Contender(Process);

impl Contender {
    pub(super) fn start(language: &Language, port: u16, way: &str) -> Result<Self, String> {
        let mut command = language.command();
        command.args([&port.to_string(), way]);
        Process::start(&mut command, &format!("{}-{way}", language.name)).map(Self)
    }
}

impl Runner for Contender {
    fn open(&mut self, _: &Server, workload: Workload) -> Result<(), String> {
        let Workload { contenders, locks } = workload;
        self.0.send(&format!("open {contenders} {locks}"))?;
        match self.0.receive(TIMEOUT)?.as_str() {
            "ready" => Ok(()),
            other => Err(format!("it says {other:?}")),
        }
    }

    fn turn(&mut self, seconds: f64) -> Result<Outcome, String> {
        self.0.send(&format!("run {seconds}"))?;
        let outcome = self.0.receive(TIMEOUT + Duration::from_secs_f64(seconds))?;
        serde_json::from_str(&outcome).map_err(|error| format!("{error} in {outcome:?}"))
    }
}
