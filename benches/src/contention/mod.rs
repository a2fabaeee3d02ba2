//! Many contenders for one lock: this project's client in each language, its commands alone, and the locks of
//! popular client libraries.

mod client;
mod contender;
mod contestant;
mod goals;
mod native;
pub(crate) mod shared;
mod turn;
mod waiting;

use crate::part::Part;
use crate::scale::{Scale, Workload};
use crate::servers::Program;
use crate::stats::Spread;
use crate::table::Table;
use crate::toolchains::{self, Language};
use contestant::{CPU, Contestant, GRANTS, Id, MEDIAN, OURS, P99, contest, ratio};
use goals::{ALONE, APART, MANY, goals, panels, shares};

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

/// The contestants of a language stand together, and take turns one right after the other.
#[rustfmt::skip]
const ROWS: [(Id, &str); 19] = [
    (("rust", OURS), "Rust: this project's client"),
    (("rust", "commands"), "Rust, redis-rs: its commands alone"),
    (("rust", "baton"), "Rust, redis-rs: RPUSH + BLPOP, the floor"),
    (("java", OURS), "Java: this project's client on Jedis"),
    (("java", "commands"), "Java, Jedis: its commands alone"),
    (("java", "baton"), "Java, Jedis: RPUSH + BLPOP, the floor"),
    (("java", "rlock"), "Java, Redisson: RLock"),
    (("java", "rfair"), "Java, Redisson: RFairLock"),
    (("python", OURS), "Python: this project's client"),
    (("python", "commands"), "Python, redis-py: its commands alone"),
    (("python", "lock"), "Python, redis-py: Lock"),
    (("python", "aclient"), "Python: this project's client, asyncio"),
    (("python", "acommands"), "Python, redis-py: its commands alone, asyncio"),
    (("go", OURS), "Go: this project's client"),
    (("go", "commands"), "Go, go-redis: its commands alone"),
    (("go", "redsync"), "Go, redsync: Mutex"),
    (("node", OURS), "Node: this project's client"),
    (("node", "commands"), "Node, ioredis: its commands alone"),
    (("node", "redlock"), "Node, redlock: Redlock"),
];

/// The languages whose contenders are programs of their own. Rust's run in this process.
const BUILT: [&str; 4] = ["java", "python", "go", "node"];

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
        contest(
            &mut contestants,
            &server,
            workload,
            scale,
            scale.turn_seconds,
        );
        part.tables.push(table(program, &contestants, workload));
        match (workload.contenders, workload.locks) {
            (1, 1) => part.goals.extend(goals(&contestants, ALONE)),
            (64, 1) => {
                part.goals.extend(goals(&contestants, MANY));
                part.goals.extend(shares(&contestants));
                part.panels.extend(panels(program, &contestants));
            }
            (64, 64) => part.goals.extend(goals(&contestants, APART)),
            _ => {}
        }
    }
    part.add(waiting::measure(program, &languages, scale.turn_seconds));
    part
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
