//! A program of another language that runs contests.

use std::time::Duration;

use super::{Outcome, Workload};
use crate::process::Process;
use crate::toolchains::Language;

/// How long it may take to start, to connect, and to serve who still waits when time is up.
const PATIENCE: Duration = Duration::from_secs(60);

/// One that runs.
pub(super) struct Contender(Process);

impl Contender {
    pub(super) fn start(language: &Language, port: u16, way: &str) -> Result<Self, String> {
        let mut command = language.command();
        command.args([&port.to_string(), way]);
        Process::start(&mut command, &format!("{}-{way}", language.name)).map(Self)
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
        self.0.say(&format!("{contenders} {locks} {seconds}"))?;
        let ready = self.0.hear(PATIENCE)?;
        if ready != "ready" {
            return Err(format!("it says {ready:?}"));
        }
        start();
        self.0.say("go")?;
        let outcome = self.0.hear(PATIENCE + Duration::from_secs_f64(seconds))?;
        serde_json::from_str(&outcome).map_err(|error| format!("{error} in {outcome:?}"))
    }
}
