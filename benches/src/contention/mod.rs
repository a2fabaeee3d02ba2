//! Many contenders for one lock: the locks of popular client libraries, compared with this module through a
//! usual client of the same language.

mod contender;
mod native;

use std::time::Duration;

use serde::Deserialize;
use testbed::{Server, server_cpu};

use crate::part::{Bar, Goal, Panel, Part};
use crate::scale::{Scale, Workload};
use crate::servers::Program;
use crate::stats::{Rounds, order};
use crate::table::Table;
use crate::toolchains::{self, Language};
use contender::Contender;
use native::{Native, Passed};

/// The outcome of a contest, as every program prints it.
#[derive(Deserialize)]
struct Outcome {
    /// Grants before the time was up.
    grants: u64,
    /// Grants after that: each contender that still waits gets one.
    late: u64,
    seconds: f64,
    /// The fewest and the most grants that one contender got.
    least: u64,
    most: u64,
    /// From the sending of a release to the receipt of the next grant.
    median_us: f64,
    p99_us: f64,
    worst_us: f64,
    errors: u64,
}

const COLUMNS: [&str; FIGURES] = [
    "grants/s",
    "CPU us/grant",
    "hand-off us",
    "p99 us",
    "worst us",
    "least/most",
    "errors",
];
const FIGURES: usize = 7;
const GRANTS: usize = 0;
const CPU: usize = 1;
const P99: usize = 3;
const SHARE: usize = 5;

impl Outcome {
    /// In the order of the columns; NaN for the times of a contest without a hand-off.
    fn figures(&self, spent: Duration) -> [f64; FIGURES] {
        let time = |micros: f64| if micros > 0.0 { micros } else { f64::NAN };
        [
            self.grants as f64 / self.seconds,
            spent.as_nanos() as f64 / 1000.0 / (self.grants + self.late) as f64,
            time(self.median_us),
            time(self.p99_us),
            time(self.worst_us),
            self.least as f64 / self.most as f64,
            self.errors as f64,
        ]
    }
}

/// A program that runs contests.
struct Contestant {
    id: Id,
    runner: Result<Runner, String>,
    figures: [Rounds; FIGURES],
}

/// The language and the way, which identify a row.
type Id = (&'static str, &'static str);

enum Runner {
    Native(Native),
    Process(Contender),
}

const ROWS: [(Id, &str); 10] = [
    (("rust", "module"), "Rust, redis-rs: this module"),
    (
        ("rust", "baton"),
        "Rust, redis-rs: RPUSH + BLPOP, the floor",
    ),
    (("java", "module"), "Java, Jedis: this module"),
    (("java", "baton"), "Java, Jedis: RPUSH + BLPOP, the floor"),
    (("java", "rlock"), "Java, Redisson: RLock"),
    (("java", "rfair"), "Java, Redisson: RFairLock"),
    (("python", "module"), "Python, redis-py: this module"),
    (("python", "lock"), "Python, redis-py: Lock"),
    (("go", "module"), "Go, go-redis: this module"),
    (("go", "redsync"), "Go, redsync: Mutex"),
];

/// Runs every client on one server, in turn.
pub(crate) fn measure(program: &Program, scale: &Scale) -> Part {
    let server = program.start();
    let languages = ["java", "python", "go"].map(|name| (name, toolchains::build(name)));
    let mut contestants: Vec<Contestant> = ROWS
        .iter()
        .map(|(id, _)| Contestant::new(*id, &server, &languages))
        .collect();
    let mut part = Part::default();
    let built = languages.iter().flat_map(|(_, language)| language);
    part.facts = built
        .map(|language| format!("clients: {}", language.versions))
        .collect();
    for &workload in scale.workloads {
        contest(&mut contestants, &server, workload, scale);
        part.tables.push(table(program, &contestants, workload));
        match (workload.contenders, workload.locks) {
            (1, 1) => part.goals.push(Goal::at_least(
                "pairs a second of RLock's, one Java client",
                2.0,
                ratio(&contestants, GRANTS, "rlock").spread(),
            )),
            (64, 1) => {
                part.goals.extend(goals(&contestants));
                part.panels.extend(panels(program, &contestants));
            }
            _ => {}
        }
    }
    part
}

fn contest(contestants: &mut [Contestant], server: &Server, workload: Workload, scale: &Scale) {
    for contestant in contestants.iter_mut() {
        contestant.figures = Default::default();
        // The JVM needs time to compile; the others need no warm-up.
        let seconds = if contestant.id.0 == "java" {
            scale.warm_up_seconds
        } else {
            workload.seconds
        };
        contestant.run(
            server,
            Workload {
                seconds,
                ..workload
            },
        );
    }
    for round in 0..scale.contention_rounds {
        for index in order(round, contestants.len()) {
            let contestant = &mut contestants[index];
            let figures = contestant.run(server, workload);
            for (kept, figure) in contestant.figures.iter_mut().zip(figures.iter().flatten()) {
                kept.push(*figure);
            }
        }
    }
}

impl Contestant {
    fn new(id: Id, server: &Server, languages: &[(&str, Result<Language, String>)]) -> Self {
        let (language, way) = id;
        let runner = match languages.iter().find(|(name, _)| *name == language) {
            None => {
                let passed = if way == "module" {
                    Passed::Lock
                } else {
                    Passed::Baton
                };
                Ok(Runner::Native(Native::new(passed)))
            }
            Some((_, Err(why))) => Err(why.clone()),
            Some((_, Ok(language))) => {
                Contender::start(language, server.port(), way).map(Runner::Process)
            }
        };
        Self {
            id,
            runner,
            figures: Default::default(),
        }
    }

    /// One contest. A contestant that fails is left out from then on.
    fn run(&mut self, server: &Server, workload: Workload) -> Option<[f64; FIGURES]> {
        let mut before = server_cpu(server.pid());
        let start = || before = server_cpu(server.pid());
        let outcome = match self.runner.as_mut().ok()? {
            Runner::Native(native) => Ok(native.contest(server, workload, start)),
            Runner::Process(process) => process.contest(workload, start),
        };
        let spent = server_cpu(server.pid()).saturating_sub(before);
        match outcome {
            Ok(outcome) => Some(outcome.figures(spent)),
            Err(why) => {
                self.runner = Err(why);
                None
            }
        }
    }
}

fn table(program: &Program, contestants: &[Contestant], workload: Workload) -> Table {
    let Workload {
        contenders, locks, ..
    } = workload;
    let who = match (contenders, locks) {
        (1, 1) => "One client, no contention".to_owned(),
        (_, 1) => format!("{contenders} contenders for one lock"),
        _ => format!("{contenders} contenders for {locks} locks, each its own"),
    };
    let mut table = Table::new(
        format!("{who}: {}", program.version),
        "A hand-off is the time from a release being sent to the next grant being seen, in the \
         clients' process; least/most are the grants of the contender that got fewest and of the \
         one that got most.",
        &COLUMNS,
    );
    for (contestant, (_, name)) in contestants.iter().zip(ROWS) {
        match &contestant.runner {
            Ok(_) => table.row(
                name,
                contestant.figures.iter().map(Rounds::spread).collect(),
            ),
            Err(why) => table.left_out(name, why),
        }
    }
    table
}

/// The ratio of this module's figure to another's, both in Java.
fn ratio(contestants: &[Contestant], figure: usize, way: &str) -> Rounds {
    ratio_in(contestants, figure, "java", way)
}

fn ratio_in(contestants: &[Contestant], figure: usize, language: &str, way: &str) -> Rounds {
    let find = |way: &str| {
        let found = contestants.iter().find(|c| c.id == (language, way))?;
        found.runner.is_ok().then_some(&found.figures[figure])
    };
    match (find("module"), find(way)) {
        (Some(ours), Some(theirs)) => ours.over(theirs),
        _ => Rounds::default(),
    }
}

fn goals(contestants: &[Contestant]) -> Vec<Goal> {
    let of = |figure, way| ratio(contestants, figure, way).spread();
    let share = contestants.iter().find(|c| c.id == ("java", "module"));
    vec![
        Goal::at_least(
            "grants a second of RLock's, 64 Java contenders",
            4.0,
            of(GRANTS, "rlock"),
        ),
        Goal::at_least("grants a second of RFairLock's", 9.0, of(GRANTS, "rfair")),
        Goal::at_least("grants a second of the floor's", 0.95, of(GRANTS, "baton")),
        Goal::at_most("server CPU a grant of RLock's", 1.0 / 3.0, of(CPU, "rlock")),
        Goal::at_most(
            "server CPU a grant of RFairLock's",
            1.0 / 9.0,
            of(CPU, "rfair"),
        ),
        Goal::at_most("p99 hand-off of RLock's", 0.2, of(P99, "rlock")),
        Goal::at_least(
            "least grants of most, 64 Java contenders",
            0.97,
            share.and_then(|c| c.figures[SHARE].spread()),
        ),
    ]
}

fn panels(program: &Program, contestants: &[Contestant]) -> Vec<Panel> {
    let titles = [
        (GRANTS, "Grants a second, more is better"),
        (CPU, "Server CPU of a grant, less is better"),
        (P99, "p99 of a hand-off, less is better"),
    ];
    titles
        .map(|(figure, title)| Panel {
            title: format!(
                "{title}: 64 contenders for one lock, {}; this module, same client = 1",
                program.version
            ),
            bars: contestants
                .iter()
                .zip(ROWS)
                .filter_map(|(contestant, ((language, way), name))| {
                    let theirs = ratio_in(contestants, figure, language, way);
                    Some(Bar {
                        name: name.to_owned(),
                        ratio: theirs
                            .spread()
                            .filter(|_| contestant.runner.is_ok())?
                            .inverted(),
                        ours: way == "module",
                    })
                })
                .collect(),
        })
        .into()
}
