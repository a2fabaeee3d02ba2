//! Many contenders for one lock: this project's client in each language, its commands alone, and the locks of
//! popular client libraries.

mod client;
mod contender;
mod goals;
mod native;
pub(crate) mod shared;
mod turn;
mod waiting;

use std::time::Duration;

use serde::Deserialize;
use testbed::{Server, server_cpu};

use crate::part::Part;
use crate::scale::{Scale, Workload};
use crate::servers::Program;
use crate::stats::{Rounds, Spread, order};
use crate::table::Table;
use crate::toolchains::{self, Language};
use client::Clients;
use contender::Contender;
use native::{Native, Passed};

/// The outcome of a turn, as every program prints it.
#[derive(Deserialize)]
struct Outcome {
    /// Grants before the time was up, of each contender.
    grants: Vec<u64>,
    /// Grants after that: each contender that still waits gets one.
    late: u64,
    seconds: f64,
    /// From the sending of a release to the receipt of the next grant.
    median_us: f64,
    p99_us: f64,
    worst_us: f64,
    errors: u64,
}

const COLUMNS: [&str; 9] = [
    "grants/s",
    "of ours",
    "CPU us/grant",
    "of ours",
    "hand-off us",
    "p99 us",
    "worst us",
    "least/most",
    "errors",
];

/// What is told of a turn.
const FIGURES: usize = 4;
const GRANTS: usize = 0;
const CPU: usize = 1;
const MEDIAN: usize = 2;
const P99: usize = 3;

impl Outcome {
    /// NaN for the times of a turn without a hand-off.
    fn figures(&self, spent: Duration) -> [f64; FIGURES] {
        let time = |micros: f64| if micros > 0.0 { micros } else { f64::NAN };
        let grants: u64 = self.grants.iter().sum();
        let mut figures = [0.0; FIGURES];
        figures[GRANTS] = grants as f64 / self.seconds;
        figures[CPU] = spent.as_nanos() as f64 / 1000.0 / (grants + self.late) as f64;
        figures[MEDIAN] = time(self.median_us);
        figures[P99] = time(self.p99_us);
        figures
    }
}

/// A program that takes turns.
struct Contestant {
    id: Id,
    name: &'static str,
    runner: Result<Runner, String>,
    figures: [Rounds; FIGURES],
    /// Over all turns: the grants of each contender, the longest hand-off, and the errors.
    grants: Vec<u64>,
    worst_us: f64,
    errors: u64,
}

/// The language and the way, which identify a row.
type Id = (&'static str, &'static str);

enum Runner {
    Clients(Clients),
    Native(Native),
    Process(Contender),
}

/// This project's client, in each language.
const OURS: &str = "client";

/// The contestants of a language stand together, and take turns one right after the other.
const ROWS: [(Id, &str); 19] = [
    (("rust", OURS), "Rust: this project's client"),
    (("rust", "commands"), "Rust, redis-rs: its commands alone"),
    (
        ("rust", "baton"),
        "Rust, redis-rs: RPUSH + BLPOP, the floor",
    ),
    (("java", OURS), "Java: this project's client on Jedis"),
    (("java", "commands"), "Java, Jedis: its commands alone"),
    (("java", "baton"), "Java, Jedis: RPUSH + BLPOP, the floor"),
    (("java", "rlock"), "Java, Redisson: RLock"),
    (("java", "rfair"), "Java, Redisson: RFairLock"),
    (("python", OURS), "Python: this project's client"),
    (
        ("python", "commands"),
        "Python, redis-py: its commands alone",
    ),
    (("python", "lock"), "Python, redis-py: Lock"),
    (
        ("python", "aclient"),
        "Python: this project's client, asyncio",
    ),
    (
        ("python", "acommands"),
        "Python, redis-py: its commands alone, asyncio",
    ),
    (("go", OURS), "Go: this project's client"),
    (("go", "commands"), "Go, go-redis: its commands alone"),
    (("go", "redsync"), "Go, redsync: Mutex"),
    (("node", OURS), "Node: this project's client"),
    (("node", "commands"), "Node, ioredis: its commands alone"),
    (("node", "redlock"), "Node, redlock: Redlock"),
];

/// The languages whose contenders are programs of their own. Rust's run in this process.
const BUILT: [&str; 4] = ["java", "python", "go", "node"];

fn is_ours(id: Id) -> bool {
    id.1 == OURS
}

/// Whether the rows of a language are run: those that were built, and Rust's.
fn is_wanted(id: Id, languages: &[(&str, Result<Language, String>)]) -> bool {
    !BUILT.contains(&id.0) || languages.iter().any(|(name, _)| *name == id.0)
}

/// Runs every client on one server, in turn. `only` names languages; empty: all.
pub(crate) fn measure(program: &Program, scale: &Scale, only: &[String]) -> Part {
    let server = program.start();
    let languages: Vec<_> = BUILT
        .into_iter()
        .filter(|name| only.is_empty() || only.iter().any(|wanted| wanted == name))
        .map(|name| (name, toolchains::build(name)))
        .collect();
    let mut contestants: Vec<_> = ROWS
        .into_iter()
        .filter(|(id, _)| is_wanted(*id, &languages))
        .map(|(id, name)| Contestant::new(id, name, &server, &languages))
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
            (1, 1) => part.goals.extend(goals::alone(&contestants)),
            (64, 1) => {
                part.goals.extend(goals::many(&contestants));
                part.panels.extend(goals::panels(program, &contestants));
            }
            (64, 64) => part.goals.extend(goals::apart(&contestants)),
            _ => {}
        }
    }
    part.add(waiting::measure(program, &languages, scale.turn_seconds));
    part
}

/// All take turns, each language's contestants one right after the other and each time in another order, so that
/// a slow spell of the machine hits all that is compared.
fn contest(contestants: &mut [Contestant], server: &Server, workload: Workload, scale: &Scale) {
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
                let turn = contestant.turn(server, scale.turn_seconds);
                if number > 0 {
                    contestant.count(turn);
                }
            }
        }
    }
}

impl Contestant {
    fn new(
        id: Id,
        name: &'static str,
        server: &Server,
        languages: &[(&str, Result<Language, String>)],
    ) -> Self {
        let (language, way) = id;
        let runner = match languages.iter().find(|(name, _)| *name == language) {
            None if way == OURS => Clients::new(server).map(Runner::Clients),
            None if way == "baton" => Ok(Runner::Native(Native::new(Passed::Baton))),
            None => Ok(Runner::Native(Native::new(Passed::Lock))),
            Some((_, Err(why))) => Err(why.clone()),
            Some((_, Ok(language))) => {
                Contender::start(language, server.port(), way).map(Runner::Process)
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
        }
    }

    /// Gets ready for a contest. Who fails is left out from then on.
    fn open(&mut self, server: &Server, workload: Workload) {
        self.figures = Default::default();
        self.grants = vec![0; workload.contenders];
        self.worst_us = 0.0;
        self.errors = 0;
        let opened = match &mut self.runner {
            Ok(Runner::Clients(clients)) => {
                clients.open(server, workload);
                Ok(())
            }
            Ok(Runner::Native(native)) => {
                native.open(server, workload);
                Ok(())
            }
            Ok(Runner::Process(process)) => process.open(workload),
            Err(_) => Ok(()),
        };
        if let Err(why) = opened {
            self.runner = Err(why);
        }
    }

    /// One turn, and the server's CPU for it. Who fails is left out from then on.
    fn turn(&mut self, server: &Server, seconds: f64) -> Option<(Outcome, Duration)> {
        let before = server_cpu(server.pid());
        let outcome = match self.runner.as_mut().ok()? {
            Runner::Clients(clients) => Ok(clients.turn(seconds)),
            Runner::Native(native) => Ok(native.turn(seconds)),
            Runner::Process(process) => process.turn(seconds),
        };
        let spent = server_cpu(server.pid()).saturating_sub(before);
        match outcome {
            Ok(outcome) => Some((outcome, spent)),
            Err(why) => {
                self.runner = Err(why);
                None
            }
        }
    }

    fn count(&mut self, turn: Option<(Outcome, Duration)>) {
        let Some((outcome, spent)) = turn else { return };
        for (kept, figure) in self.figures.iter_mut().zip(outcome.figures(spent)) {
            kept.push(figure);
        }
        for (sum, grants) in self.grants.iter_mut().zip(&outcome.grants) {
            *sum += grants;
        }
        self.worst_us = self.worst_us.max(outcome.worst_us);
        self.errors += outcome.errors;
    }

    /// The grants of the contender that got fewest, to those of the one that got most.
    fn share(&self) -> f64 {
        let least = self.grants.iter().min().copied().unwrap_or(0);
        let most = self.grants.iter().max().copied().unwrap_or(0);
        least as f64 / most as f64
    }
}

/// A figure's ratio to that of another contestant of the language, turn by turn; empty when one is left out.
fn ratio(contestants: &[Contestant], figure: usize, id: Id, base: &str) -> Rounds {
    let find = |way: &str| {
        let found = contestants.iter().find(|c| c.id == (id.0, way))?;
        found.runner.is_ok().then_some(&found.figures[figure])
    };
    match (find(id.1), find(base)) {
        (Some(of), Some(base)) => of.over(base),
        _ => Rounds::default(),
    }
}

fn table(program: &Program, contestants: &[Contestant], workload: Workload) -> Table {
    let Workload { contenders, locks } = workload;
    let who = match (contenders, locks) {
        (1, 1) => "One client, no contention".to_owned(),
        (_, 1) => format!("{contenders} contenders for one lock"),
        _ => format!("{contenders} contenders for {locks} locks, each its own"),
    };
    let mut table = Table::new(
        format!("{who}: {}", program.version),
        "Medians of the turns, with the quartiles in brackets. \"Of ours\" is the ratio to this project's \
         client of the same language in the turn beside. A hand-off is the time from a release being sent \
         to the next grant being seen, in the clients' process; least/most are the grants of the contender \
         that got fewest in all turns and of the one that got most.",
        &COLUMNS,
    );
    for contestant in contestants {
        if let Err(why) = &contestant.runner {
            table.left_out(contestant.name, why);
            continue;
        }
        let own = |figure: usize| contestant.figures[figure].quartiles();
        let of_ours = |figure| ratio(contestants, figure, contestant.id, OURS).quartiles();
        table.row(
            contestant.name,
            vec![
                own(GRANTS),
                of_ours(GRANTS),
                own(CPU),
                of_ours(CPU),
                own(MEDIAN),
                own(P99),
                Spread::of(contestant.worst_us).filter(|worst| worst.median > 0.0),
                Spread::of(contestant.share()),
                Spread::of(contestant.errors as f64),
            ],
        );
    }
    table
}
