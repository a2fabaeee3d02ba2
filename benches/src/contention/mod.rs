//! Many contenders for one lock: this project's client in each language, its commands alone, and the locks of
//! popular client libraries.

mod contestant;
mod goals;
mod rows;
mod runners;
pub(crate) mod shared;
mod turn;
mod waiting;

use crate::part::Part;
use crate::scale::{Scale, Workload};
use crate::servers::Program;
use crate::stats::Spread;
use crate::toolchains;
use contestant::{CPU, Column, Contestant, GRANTS, MEDIAN, OURS, P99, contest, table};
use goals::{ALONE, APART, MANY, goals, panels, shares};
use rows::{BUILT, ROWS, is_wanted};

const COLUMNS: [Column; 9] = [
    ("grants/s", |row| row.figure(GRANTS)),
    ("of ours", |row| row.over(GRANTS)),
    ("CPU us/grant", |row| row.figure(CPU)),
    ("of ours", |row| row.over(CPU)),
    ("hand-off us", |row| row.figure(MEDIAN)),
    ("p99 us", |row| row.figure(P99)),
    ("worst us", |row| {
        Spread::of(row.own.worst_us).filter(|worst| worst.median > 0.0)
    }),
    ("least/most", |row| row.share()),
    ("errors", |row| row.errors()),
];

const ABOUT: &str = "\
Medians of the turns, with the quartiles in brackets. \"Of ours\" is the ratio to this project's client of the same \
language in the turn beside. A hand-off is the time from a release being sent to the next grant being seen, in the \
clients' process; least/most are the grants of the contender that got fewest in all turns and of the one that got \
most.";

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
    for &(contenders, locks) in scale.workloads {
        let workload = Workload { contenders, locks };
        contest(
            &mut contestants,
            &server,
            workload,
            scale,
            scale.turn_seconds,
        );
        let title = title(workload);
        let table = table(&title, ABOUT, program, &COLUMNS, &contestants, OURS);
        part.tables.push(table);
        match (contenders, locks) {
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

fn title(Workload { contenders, locks }: Workload) -> String {
    match (contenders, locks) {
        (1, 1) => "One client, no contention".to_owned(),
        (_, 1) => format!("{contenders} contenders for one lock"),
        _ => format!("{contenders} contenders for {locks} locks, each its own"),
    }
}
