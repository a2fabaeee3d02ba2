//! The contestants of a contest, their turns, and the figures of these.

use std::time::Duration;

use testbed::{Server, server_cpu};

use super::runners::{Clients, Commands, Program, Runner};
use super::turn::Turn;
use crate::passed::Passed;
use crate::scale::{Scale, Workload};
use crate::servers;
use crate::stats::{Rounds, Spread, order, percentiles};
use crate::table::Table;
use crate::toolchains::Language;

/// The figures of a turn.
const FIGURES: usize = 5;
pub(super) const GRANTS: usize = 0;
pub(super) const CPU: usize = 1;
pub(super) const MEDIAN: usize = 2;
pub(super) const P99: usize = 3;
/// Of shared locks: percent of the grants.
pub(super) const WRITES: usize = 4;

/// A row of a contest.
pub(super) struct Contestant {
    pub(super) id: Id,
    pub(super) name: &'static str,
    pub(super) runner: Result<Box<dyn Runner>, String>,
    pub(super) figures: [Rounds; FIGURES],
    locks: usize,
    /// Over all turns: the grants of each contender, the longest hand-off, and the errors.
    grants: Vec<u64>,
    pub(super) worst_us: f64,
    pub(super) errors: u64,
    /// How long writers waited, and others.
    waits_us: [Vec<f64>; 2],
}

/// The language and the way, which identify a row.
pub(super) type Id = (&'static str, &'static str);

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
        let boxed = |passed| Ok(Box::new(Commands::new(passed)) as Box<dyn Runner>);
        let runner = match languages.iter().find(|(name, _)| *name == language) {
            None if way == OURS => Clients::new(server).map(|it| Box::new(it) as _),
            None if way == "baton" => boxed(Passed::Baton),
            None => boxed(Passed::Lock),
            Some((_, Err(why))) => Err(why.clone()),
            Some((_, Ok(language))) => {
                Program::start(language, server.port(), way).map(|it| Box::new(it) as _)
            }
        };
        Self {
            id,
            name,
            runner,
            figures: Default::default(),
            locks: 1,
            grants: Vec::new(),
            worst_us: 0.0,
            errors: 0,
            waits_us: Default::default(),
        }
    }

    /// Gets ready for a contest. A contestant that fails is left out from then on.
    pub(super) fn open(&mut self, server: &Server, workload: Workload) {
        self.figures = Default::default();
        self.locks = workload.locks;
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
    pub(super) fn turn(&mut self, server: &Server, seconds: f64) -> Option<(Turn, Duration)> {
        let before = server_cpu(server.pid());
        let turn = self.runner.as_mut().ok()?.turn(seconds);
        let spent = server_cpu(server.pid()).saturating_sub(before);
        match turn {
            Ok(turn) => Some((turn, spent)),
            Err(why) => {
                self.runner = Err(why);
                None
            }
        }
    }

    pub(super) fn count(&mut self, turn: Option<(Turn, Duration)>) {
        let Some((turn, spent)) = turn else {
            return;
        };
        let mut outcome = turn.outcome(self.locks);
        let [median, p99, worst] = percentiles(&mut outcome.hand_offs_us);
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
        ];
        for (figure, value) in figures {
            self.figures[figure].push(value);
        }
        for (sum, grants) in self.grants.iter_mut().zip(&outcome.grants) {
            *sum += grants;
        }
        self.worst_us = self.worst_us.max(worst);
        self.errors += turn.errors;
        for (all, waits) in self.waits_us.iter_mut().zip(outcome.waits_us) {
            all.extend(waits);
        }
    }

    /// How long writers waited, or the others: the 50th and the 99th percentile, and the longest.
    pub(super) fn waits(&self, whose: usize) -> [Option<Spread>; 3] {
        let mut all = self.waits_us[whose].clone();
        let is_empty = all.is_empty();
        percentiles(&mut all).map(|wait| Spread::of(wait).filter(|_| !is_empty))
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

/// A row, the rows of its contest, and the way that it is compared with.
pub(super) struct Row<'a> {
    pub(super) own: &'a Contestant,
    all: &'a [Contestant],
    base: &'a str,
}

/// A column: its title, and its cell of a row.
pub(super) type Column = (&'static str, fn(&Row<'_>) -> Option<Spread>);

impl Row<'_> {
    pub(super) fn figure(&self, figure: usize) -> Option<Spread> {
        self.own.figures[figure].quartiles()
    }

    /// Its ratio to that of the compared way.
    pub(super) fn over(&self, figure: usize) -> Option<Spread> {
        ratio(self.all, figure, self.own.id, self.base).quartiles()
    }

    pub(super) fn share(&self) -> Option<Spread> {
        Spread::of(self.own.share())
    }

    pub(super) fn errors(&self) -> Option<Spread> {
        Spread::of(self.own.errors as f64)
    }
}

/// The table of a contest.
pub(super) fn table(
    title: &str,
    about: &str,
    program: &servers::Program,
    columns: &[Column],
    all: &[Contestant],
    base: &str,
) -> Table {
    let titles: Vec<_> = columns.iter().map(|(title, _)| *title).collect();
    let mut table = Table::new(format!("{title}: {}", program.version), about, &titles);
    for own in all {
        if let Err(why) = &own.runner {
            table.left_out(own.name, why);
            continue;
        }
        let row = Row { own, all, base };
        let cells = columns.iter().map(|(_, cell)| cell(&row));
        table.row(own.name, cells.collect());
    }
    table
}
