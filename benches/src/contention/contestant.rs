//! The contestants of a contest, their turns, and the figures of these.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use testbed::{Server, server_cpu};

use super::Contest;
use super::turn::Turn;
use crate::facts::memory_of_process;
use crate::process::Process;
use crate::servers::{Program, number};
use crate::stats::{Rounds, Spread, percentiles};
use crate::toolchains::Language;

/// The figures of a turn.
const FIGURES: usize = 7;
pub(super) const GRANTS: usize = 0;
pub(super) const CPU: usize = 1;
pub(super) const MEDIAN: usize = 2;
pub(super) const P99: usize = 3;
/// Of shared locks: percent of the grants.
pub(super) const WRITES: usize = 4;
/// At half-time: the connections of the server, and the MiB of all processes.
pub(super) const CONNECTIONS: usize = 5;
pub(super) const MEMORY: usize = 6;

/// How long a program may take to start, and to finish after the time is up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The language and the way, which identify a row.
pub(super) type Id = (&'static str, &'static str);

/// This project's client, in each language.
pub(super) const OURS: &str = "client";

/// The programs of contenders by their language; of a language that is left out, why.
pub(super) type Languages = BTreeMap<&'static str, Result<Language, String>>;

/// A row of a contest.
pub(super) struct Contestant {
    pub(super) id: Id,
    pub(super) name: &'static str,
    /// While it takes turns, its server and its processes; then nothing, or why it is left out.
    running: Option<(Server, Vec<Process>)>,
    pub(super) left_out: Option<String>,
    pub(super) figures: [Rounds; FIGURES],
    locks: usize,
    /// Over all turns: the grants of each contender, and the errors.
    grants: Vec<u64>,
    errors: u64,
    /// How long writers waited, and others.
    waits_us: [Vec<f64>; 2],
}

impl Contestant {
    /// Starts its processes, and a server for them alone, so that what the server counts is theirs.
    pub(super) fn start(
        (id, name): (Id, &'static str),
        contest: &Contest,
        program: &Program,
        languages: &Languages,
    ) -> Self {
        let mut contestant = Self {
            id,
            name,
            running: None,
            left_out: None,
            figures: Default::default(),
            locks: contest.locks,
            grants: vec![0; contest.contenders * contest.processes],
            errors: 0,
            waits_us: Default::default(),
        };
        match &languages[id.0] {
            Ok(language) => contestant.attempt(|_| {
                let server = program.start();
                let processes = processes(id, contest, &server, language)?;
                Ok(Some((server, processes)))
            }),
            Err(why) => contestant.left_out = Some(why.clone()),
        }
        contestant
    }

    /// Goes on as `work` says. A contestant that fails is left out from then on.
    fn attempt(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<Option<(Server, Vec<Process>)>, String>,
    ) {
        match work(self) {
            Ok(running) => self.running = running,
            Err(why) => self.left_out = Some(why),
        }
    }

    /// One turn, which counts or not.
    pub(super) fn turn(&mut self, seconds: f64, counts: bool) {
        let Some((server, mut processes)) = self.running.take() else {
            return;
        };
        self.attempt(|contestant| {
            let before = server_cpu(server.pid());
            for process in &mut processes {
                process.send(&seconds.to_string())?;
            }
            let time = Duration::from_secs_f64(seconds);
            thread::sleep(time / 2);
            // Less the one that asks.
            let connections = number(&server, "clients", "connected_clients") - 1.0;
            let memory: f64 = processes.iter().map(memory_of_process).sum();
            let turns = processes.iter().map(|process| {
                let text = process.receive(TIMEOUT + time)?;
                serde_json::from_str(&text).map_err(|error| format!("{error} in {text:.200?}"))
            });
            let turn = Turn::of(turns.collect::<Result<_, String>>()?);
            let spent = server_cpu(server.pid()).saturating_sub(before);
            if counts {
                contestant.count(&turn, spent, [connections, memory]);
            }
            Ok(Some((server, processes)))
        });
    }

    fn count(&mut self, turn: &Turn, spent: Duration, [connections, memory]: [f64; 2]) {
        let mut outcome = turn.outcome(self.locks);
        let [median, p99, _] = percentiles(&mut outcome.hand_offs_us);
        // A turn without a hand-off has no such time.
        let time = |micros: f64| if micros > 0.0 { micros } else { f64::NAN };
        let grants: u64 = outcome.grants.iter().sum();
        let all = (grants + outcome.late) as f64;
        let figures = [
            (GRANTS, grants as f64 / turn.seconds),
            (CPU, spent.as_nanos() as f64 / 1000.0 / all),
            (MEDIAN, time(median)),
            (P99, time(p99)),
            (WRITES, 100.0 * outcome.waits_us[0].len() as f64 / all),
            (CONNECTIONS, connections),
            (MEMORY, memory),
        ];
        for (figure, value) in figures {
            self.figures[figure].push(value);
        }
        for (sum, grants) in self.grants.iter_mut().zip(&outcome.grants) {
            *sum += grants;
        }
        self.errors += turn.errors;
        for (all, waits) in self.waits_us.iter_mut().zip(outcome.waits_us) {
            all.extend(waits);
        }
    }

    /// Ends its processes and its server.
    pub(super) fn stop(&mut self) {
        self.running = None;
    }
}

/// The processes of a contestant, connected.
fn processes(
    (name, way): Id,
    contest: &Contest,
    server: &Server,
    language: &Language,
) -> Result<Vec<Process>, String> {
    let numbers = [
        contest.contenders,
        contest.locks,
        contest.held_ms.unwrap_or(0),
    ];
    let start = |number| {
        let mut command = language.command();
        command.args([&server.port().to_string(), way]);
        command.args(numbers.map(|number| number.to_string()));
        Process::start(&mut command, &format!("{name}-{way}-{number}"))
    };
    let all: Vec<_> = (0..contest.processes)
        .map(start)
        .collect::<Result<_, _>>()?;
    for process in &all {
        let answer = process.receive(TIMEOUT)?;
        if answer != "ready" {
            return Err(format!("it says {answer:?}"));
        }
    }
    Ok(all)
}

/// A row, the rows of its contest, and the way that it is compared with.
pub(super) struct Row<'a> {
    pub(super) own: &'a Contestant,
    pub(super) all: &'a [Contestant],
    pub(super) base: &'a str,
}

/// A cell of a row.
pub(super) type Cell = fn(&Row<'_>) -> Option<Spread>;

impl Row<'_> {
    pub(super) fn figure(&self, figure: usize) -> Option<Spread> {
        self.own.figures[figure].quartiles()
    }

    /// Its ratio to that of the compared way in the same language, turn by turn; none when one is left out.
    pub(super) fn over(&self, figure: usize) -> Option<Spread> {
        let base = (self.own.id.0, self.base);
        let base = self.all.iter().find(|contestant| contestant.id == base)?;
        let both = [self.own, base].map(|contestant| contestant.left_out.is_none());
        let ratio = self.own.figures[figure].over(&base.figures[figure]);
        (both == [true; 2]).then(|| ratio.quartiles()).flatten()
    }

    /// The grants of the contender that got fewest, to those of the one that got most.
    pub(super) fn share(&self) -> Option<Spread> {
        let least = self.own.grants.iter().min().copied().unwrap_or(0);
        let most = self.own.grants.iter().max().copied().unwrap_or(0);
        Spread::of(least as f64 / most as f64)
    }

    pub(super) fn errors(&self) -> Option<Spread> {
        Spread::of(self.own.errors as f64)
    }

    /// How long writers waited, or the others, in all turns: the 50th and the 99th percentile, and the longest.
    pub(super) fn waits(&self, whose: usize) -> [Option<Spread>; 3] {
        let mut all = self.own.waits_us[whose].clone();
        let is_empty = all.is_empty();
        percentiles(&mut all).map(|wait| Spread::of(wait).filter(|_| !is_empty))
    }
}
