//! The contestants of a contest, their turns, and the figures of these.

use std::time::Duration;

use serde::Deserialize;
use testbed::{Server, server_cpu};

use super::client::Clients;
use super::contender::Contender;
use super::native::Native;
use crate::passed::Passed;
use crate::scale::{Scale, Workload};
use crate::stats::{Rounds, order, percentiles};
use crate::toolchains::Language;

/// The outcome of a turn, as every program prints it.
#[derive(Default, Deserialize)]
pub(super) struct Outcome {
    /// Grants before the time was up, of each contender.
    pub(super) grants: Vec<u64>,
    /// Grants after that: each contender that still waits gets one.
    pub(super) late: u64,
    pub(super) seconds: f64,
    /// From the sending of a release to the receipt of the next grant.
    pub(super) hand_offs_us: Vec<f64>,
    pub(super) errors: u64,
    /// Where locks are shared: from the call to the grant, of those who want the lock alone; late ones too.
    #[serde(default)]
    pub(super) write_waits_us: Vec<f64>,
    /// The same of the other contenders.
    #[serde(default)]
    pub(super) other_waits_us: Vec<f64>,
}

/// The figures of a turn.
const FIGURES: usize = 5;
pub(super) const GRANTS: usize = 0;
pub(super) const CPU: usize = 1;
pub(super) const MEDIAN: usize = 2;
pub(super) const P99: usize = 3;
/// Of shared locks: percent of the grants.
pub(super) const WRITES: usize = 4;

impl Outcome {
    /// NaN for the times of a turn without a hand-off.
    fn figures(&self, spent: Duration, [median, p99]: [f64; 2]) -> [f64; FIGURES] {
        let time = |micros: f64| if micros > 0.0 { micros } else { f64::NAN };
        let grants: u64 = self.grants.iter().sum();
        let mut figures = [0.0; FIGURES];
        figures[GRANTS] = grants as f64 / self.seconds;
        let all = (grants + self.late) as f64;
        figures[CPU] = spent.as_nanos() as f64 / 1000.0 / all;
        figures[WRITES] = 100.0 * self.write_waits_us.len() as f64 / all;
        figures[MEDIAN] = time(median);
        figures[P99] = time(p99);
        figures
    }
}

/// A program that takes turns.
pub(super) struct Contestant {
    pub(super) id: Id,
    pub(super) name: &'static str,
    pub(super) runner: Result<Box<dyn Runner>, String>,
    pub(super) figures: [Rounds; FIGURES],
    /// Over all turns: the grants of each contender, the longest hand-off, and the errors.
    grants: Vec<u64>,
    pub(super) worst_us: f64,
    pub(super) errors: u64,
    /// How long writers waited, and others.
    pub(super) waits_us: [Vec<f64>; 2],
}

/// The language and the way, which identify a row.
pub(super) type Id = (&'static str, &'static str);

/// A program that takes a contestant's turns: contenders in this process, or a program of another language.
pub(super) trait Runner: Send {
    /// Gets ready for a contest of so many.
    fn open(&mut self, server: &Server, workload: Workload) -> Result<(), String>;

    /// One turn.
    fn turn(&mut self, seconds: f64) -> Result<Outcome, String>;
}

/// This project's client, in each language.
pub(super) const OURS: &str = "client";

pub(super) fn is_ours(id: Id) -> bool {
    id.1 == OURS
}

/// All take turns, each language's contestants one right after the other and each time in another order, so that
/// a slow spell of the machine hits all that is compared.
pub(super) fn contest(
    contestants: &mut [Contestant],
    server: &Server,
    workload: Workload,
    scale: &Scale,
    seconds: f64,
) {
    for contestant in contestants.iter_mut() {
        contestant.open(server, workload);
        // A JVM needs time to compile; the others' first turn is warm-up enough.
        if contestant.id.0 == "java" {
            contestant.turn(server, scale.warm_up_seconds);
        }
    }
    for number in 0..=scale.turns {
        for group in contestants.chunk_by_mut(|a, b| a.id.0 == b.id.0) {
            for index in order(number, group.len()) {
                let contestant = &mut group[index];
                let turn = contestant.turn(server, seconds);
                if number > 0 {
                    contestant.count(turn);
                }
            }
        }
    }
}

impl Contestant {
    pub(super) fn new(
        id: Id,
        name: &'static str,
        server: &Server,
        languages: &[(&str, Result<Language, String>)],
    ) -> Self {
        let (language, way) = id;
        let boxed = |native| Ok(Box::new(native) as Box<dyn Runner>);
        let runner = match languages.iter().find(|(name, _)| *name == language) {
            None if way == OURS => Clients::new(server).map(|it| Box::new(it) as _),
            None if way == "baton" => boxed(Native::new(Passed::Baton)),
            None => boxed(Native::new(Passed::Lock)),
            Some((_, Err(why))) => Err(why.clone()),
            Some((_, Ok(language))) => {
                Contender::start(language, server.port(), way).map(|it| Box::new(it) as _)
            }
        };
        Self {
            id,
            name,
            runner,
            figures: Default::default(),
            grants: Vec::new(),
            worst_us: 0.0,
            errors: 0,
            waits_us: Default::default(),
        }
    }

    /// Gets ready for a contest. A contestant that fails is left out from then on.
    pub(super) fn open(&mut self, server: &Server, workload: Workload) {
        self.figures = Default::default();
        self.grants = vec![0; workload.contenders];
        self.worst_us = 0.0;
        self.errors = 0;
        self.waits_us = Default::default();
        if let Ok(runner) = &mut self.runner
            && let Err(why) = runner.open(server, workload)
        {
            self.runner = Err(why);
        }
    }

    /// One turn, and the server's CPU for it. A contestant that fails is left out from then on.
    pub(super) fn turn(&mut self, server: &Server, seconds: f64) -> Option<(Outcome, Duration)> {
        let before = server_cpu(server.pid());
        let outcome = self.runner.as_mut().ok()?.turn(seconds);
        let spent = server_cpu(server.pid()).saturating_sub(before);
        match outcome {
            Ok(outcome) => Some((outcome, spent)),
            Err(why) => {
                self.runner = Err(why);
                None
            }
        }
    }

    pub(super) fn count(&mut self, turn: Option<(Outcome, Duration)>) {
        let Some((mut outcome, spent)) = turn else {
            return;
        };
        let [median, p99, worst] = percentiles(&mut outcome.hand_offs_us);
        let figures = outcome.figures(spent, [median, p99]);
        for (kept, figure) in self.figures.iter_mut().zip(figures) {
            kept.push(figure);
        }
        for (sum, grants) in self.grants.iter_mut().zip(&outcome.grants) {
            *sum += grants;
        }
        self.worst_us = self.worst_us.max(worst);
        self.errors += outcome.errors;
        let waits = [outcome.write_waits_us, outcome.other_waits_us];
        for (all, waits) in self.waits_us.iter_mut().zip(waits) {
            all.extend(waits);
        }
    }

    /// The grants of the contender that got fewest, to those of the one that got most.
    pub(super) fn share(&self) -> f64 {
        let least = self.grants.iter().min().copied().unwrap_or(0);
        let most = self.grants.iter().max().copied().unwrap_or(0);
        least as f64 / most as f64
    }
}

/// A figure's ratio to that of another contestant of the language, turn by turn; empty when one is left out.
pub(super) fn ratio(contestants: &[Contestant], figure: usize, id: Id, base: &str) -> Rounds {
    let find = |way: &str| {
        let found = contestants.iter().find(|c| c.id == (id.0, way))?;
        found.runner.is_ok().then_some(&found.figures[figure])
    };
    match (find(id.1), find(base)) {
        (Some(of), Some(base)) => of.over(base),
        _ => Rounds::default(),
    }
}
