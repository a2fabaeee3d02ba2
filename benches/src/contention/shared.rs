//! Readers and writers, and a semaphore: this project's commands beside Redisson's objects, in Java.

use serde::Deserialize;
use testbed::{Server, server_cpu};

use super::contender::Contender;
use crate::part::{Goal, Part};
use crate::scale::{Scale, Workload};
use crate::servers::Program;
use crate::stats::{Rounds, Spread, interleave, percentile};
use crate::table::Table;
use crate::toolchains::{self, Language};

/// A turn is so many times as long as one of the other contests: who starves does so for no longer than it.
const LONGER: f64 = 4.0;

const WORKLOAD: Workload = Workload {
    contenders: 64,
    locks: 1,
};

/// What the contenders ask for.
struct Contest {
    /// As the program of the contenders names it.
    id: &'static str,
    title: &'static str,
    rows: [&'static str; 2],
    /// What its goals are called: the grants, and the server CPU.
    goals: [&'static str; 2],
}

const CONTESTS: [Contest; 3] = [
    Contest {
        id: "threads",
        title: "64 Java threads for one lock, 58 that read and 6 that write",
        rows: [COMMANDS, "Redisson: RReadWriteLock"],
        goals: [
            "grants a second of RReadWriteLock's, 6 of 64 threads write",
            "server CPU a grant of it",
        ],
    },
    Contest {
        id: "calls",
        title: "64 Java threads for one lock, every tenth call of each writes",
        rows: [COMMANDS, "Redisson: RReadWriteLock"],
        goals: [
            "grants a second of RReadWriteLock's, every tenth call writes",
            "server CPU a grant of it",
        ],
    },
    Contest {
        id: "permits",
        title: "64 Java threads for a semaphore of 8",
        rows: [COMMANDS, "Redisson: RPermitExpirableSemaphore"],
        goals: [
            "grants a second of RPermitExpirableSemaphore's, 8 permits",
            "server CPU a grant of it",
        ],
    },
];

const COMMANDS: &str = "Jedis: this project's commands alone";

/// The outcome of a turn, as the program prints it.
#[derive(Deserialize)]
struct Outcome {
    /// Grants before the time was up, of each contender.
    grants: Vec<u64>,
    late: u64,
    seconds: f64,
    errors: u64,
    /// From the call to the grant, of those who want the lock alone and of the others; late ones too.
    write_waits_us: Vec<f64>,
    other_waits_us: Vec<f64>,
}

const COLUMNS: [&str; 12] = [
    "grants/s",
    "of Redisson's",
    "CPU us/grant",
    "of Redisson's",
    "writes, % of grants",
    "writers' wait p50 us",
    "writers' p99 us",
    "writers' MAX us",
    "others' wait p50 us",
    "others' p99 us",
    "least/most",
    "errors",
];

/// What is told of a turn.
const FIGURES: usize = 3;
const GRANTS: usize = 0;
const CPU: usize = 1;
const WRITES: usize = 2;

struct Contestant {
    name: &'static str,
    runner: Result<Contender, String>,
    turns: usize,
    /// Over all turns that count.
    grants: Vec<u64>,
    write_waits_us: Vec<f64>,
    other_waits_us: Vec<f64>,
    errors: u64,
}

/// Runs all contests on each server.
pub(crate) fn measure(programs: &[Program], scale: &Scale) -> Part {
    let java = toolchains::build("java");
    let mut part = Part::default();
    if let Ok(java) = &java {
        part.facts.push(format!("shares: {}", java.versions));
    }
    for (place, program) in programs.iter().enumerate() {
        for contest in &CONTESTS {
            let (table, goals) = contest.run(program, &java, scale);
            part.tables.push(table);
            // As with the other contests, the goals are those of the first server.
            if place == 0 {
                part.goals.extend(goals);
            }
        }
    }
    part
}

impl Contest {
    fn run(
        &self,
        program: &Program,
        java: &Result<Language, String>,
        scale: &Scale,
    ) -> (Table, [Goal; 2]) {
        let server = program.start();
        let ways = ["commands", "redisson"].map(|way| format!("{way}-{}", self.id));
        let mut contestants = [0, 1].map(|row| {
            let mut contestant = Contestant::start(self.rows[row], java, &server, &ways[row]);
            contestant.turn(&server, scale.warm_up_seconds);
            contestant.forget();
            contestant
        });
        let seconds = LONGER * scale.turn_seconds;
        let figures = interleave(scale.turns, &mut contestants, |contestant| {
            contestant.turn(&server, seconds)
        });
        let [ours, theirs] = figures.as_slice() else {
            unreachable!("two contestants");
        };
        let of = |figure: usize| ours[figure].over(&theirs[figure]).quartiles();
        let goals = [
            Goal::at_least(self.goals[0], 4.0, of(GRANTS)),
            Goal::at_most(self.goals[1], 1.0 / 3.0, of(CPU)),
        ];
        let table = self.table(program, &mut contestants, &figures);
        (table, goals)
    }

    fn table(
        &self,
        program: &Program,
        contestants: &mut [Contestant],
        figures: &[[Rounds; FIGURES]],
    ) -> Table {
        let mut table = Table::new(
            format!("{}: {}", self.title, program.version),
            "Medians of the turns, with the quartiles in brackets. \"Of Redisson's\" is the ratio in the turn \
             beside. A wait is the time from the call to the grant, in the clients' process; its percentiles \
             are over all turns, and over the grants after the end of a turn too, for which somebody may \
             have waited all the turn. Least/most are the grants of the contender that got fewest and of \
             the one that got most.",
            &COLUMNS,
        );
        let base = &figures[1];
        for (contestant, own) in contestants.iter_mut().zip(figures) {
            if let Err(why) = &contestant.runner {
                table.left_out(contestant.name, why);
                continue;
            }
            let [writes, others] = [
                waits(&mut contestant.write_waits_us),
                waits(&mut contestant.other_waits_us),
            ];
            table.row(
                contestant.name,
                vec![
                    own[GRANTS].quartiles(),
                    own[GRANTS].over(&base[GRANTS]).quartiles(),
                    own[CPU].quartiles(),
                    own[CPU].over(&base[CPU]).quartiles(),
                    own[WRITES].quartiles(),
                    writes[0],
                    writes[1],
                    writes[2],
                    others[0],
                    others[1],
                    Spread::of(contestant.share()),
                    Spread::of(contestant.errors as f64),
                ],
            );
        }
        table
    }
}

/// The 50th and the 99th percentile and the longest; `None` of none.
fn waits(all: &mut [f64]) -> [Option<Spread>; 3] {
    all.sort_by(f64::total_cmp);
    [0.5, 0.99, 1.0].map(|part| {
        (!all.is_empty())
            .then(|| percentile(all, part))
            .and_then(Spread::of)
    })
}

impl Contestant {
    fn start(
        name: &'static str,
        java: &Result<Language, String>,
        server: &Server,
        way: &str,
    ) -> Self {
        let started = java.as_ref().map_err(Clone::clone).and_then(|java| {
            let mut contender = Contender::start(java, server.port(), way)?;
            contender.open(WORKLOAD)?;
            Ok(contender)
        });
        Self {
            name,
            runner: started,
            turns: 0,
            grants: vec![0; WORKLOAD.contenders],
            write_waits_us: Vec::new(),
            other_waits_us: Vec::new(),
            errors: 0,
        }
    }

    /// One turn; NaN from a contestant that is left out. The first one after [`Self::forget`] is warm-up.
    fn turn(&mut self, server: &Server, seconds: f64) -> [f64; FIGURES] {
        let Ok(runner) = &mut self.runner else {
            return [f64::NAN; FIGURES];
        };
        let before = server_cpu(server.pid());
        let outcome: Result<Outcome, String> = runner.turn(seconds);
        let spent = server_cpu(server.pid()).saturating_sub(before);
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(why) => {
                self.runner = Err(why);
                return [f64::NAN; FIGURES];
            }
        };
        let granted: u64 = outcome.grants.iter().sum();
        let all = (granted + outcome.late) as f64;
        let mut figures = [0.0; FIGURES];
        figures[GRANTS] = granted as f64 / outcome.seconds;
        figures[CPU] = spent.as_nanos() as f64 / 1000.0 / all;
        figures[WRITES] = 100.0 * outcome.write_waits_us.len() as f64 / all;
        if self.turns > 0 {
            for (sum, grants) in self.grants.iter_mut().zip(&outcome.grants) {
                *sum += grants;
            }
            self.write_waits_us.extend(&outcome.write_waits_us);
            self.other_waits_us.extend(&outcome.other_waits_us);
        }
        self.errors += outcome.errors;
        self.turns += 1;
        figures
    }

    /// Begins to count anew.
    fn forget(&mut self) {
        self.turns = 0;
    }

    /// The grants of the contender that got fewest, to those of the one that got most.
    fn share(&self) -> f64 {
        let least = self.grants.iter().min().copied().unwrap_or(0);
        let most = self.grants.iter().max().copied().unwrap_or(0);
        least as f64 / most as f64
    }
}
