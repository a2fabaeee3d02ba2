//! A program of another language that runs contests.

use std::time::Duration;

use super::{Outcome, Workload};
use crate::process::Process;
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

    /// Lets it connect, calls `start`, and lets it contend.
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
        self.0.send(&format!("{contenders} {locks} {seconds}"))?;
        let ready = self.0.receive(TIMEOUT)?;
        if ready != "ready" {
            return Err(format!("it says {ready:?}"));
        }
        start();
        self.0.send("go")?;
        let outcome = self.0.receive(TIMEOUT + Duration::from_secs_f64(seconds))?;
        serde_json::from_str(&outcome).map_err(|error| format!("{error} in {outcome:?}"))
    }
}
