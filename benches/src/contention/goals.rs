//! What the contests are to show, and their bars.

use std::thread;

use super::contestant::{CONNECTIONS, CPU, Cell, Contestant, GRANTS, Id, OURS, P99, Row};
use crate::part::{Bar, Goal, Panel};
use crate::servers::Program;
use crate::stats::Spread;

/// A cell of a way in a language is to be at least, or at most, so much, where it is a ratio to another way.
pub(super) type Wanted = (
    &'static str,
    fn(&'static str, f64, Option<Spread>) -> Goal,
    f64,
    Cell,
    Id,
    &'static str,
);

const MORE: fn(&'static str, f64, Option<Spread>) -> Goal = Goal::at_least;
const LESS: fn(&'static str, f64, Option<Spread>) -> Goal = Goal::at_most;
const OF_GRANTS: Cell = |row| row.over(GRANTS);
const OF_CPU: Cell = |row| row.over(CPU);
const OF_P99: Cell = |row| row.over(P99);
const JAVA: Id = ("java", OURS);
const JAVA_COMMANDS: Id = ("java", "commands");
const GO: Id = ("go", OURS);

/// The connections of a go-redis pool by default, for each processor.
const GO_POOL: usize = 10;

/// Of one client without contention.
#[rustfmt::skip]
pub(super) const ALONE: &[Wanted] = &[
    ("pairs a second of RLock's, one Java client", MORE, 2.0, OF_GRANTS, JAVA, "rlock"),
    ("the same, the commands alone", MORE, 2.0, OF_GRANTS, JAVA_COMMANDS, "rlock"),
    ("pairs a second of the commands alone, one Go client", MORE, 0.9, OF_GRANTS, GO, "commands"),
    ("pairs a second of redsync's, one Go client", MORE, 1.0, OF_GRANTS, GO, "redsync"),
];

/// Of 64 contenders for 64 locks.
#[rustfmt::skip]
pub(super) const APART: &[Wanted] = &[
    ("pairs a second of the commands alone, 64 goroutines and 64 locks", MORE, 0.9, OF_GRANTS, GO, "commands"),
];

/// Of 64 contenders for one lock.
#[rustfmt::skip]
pub(super) const MANY: &[Wanted] = &[
    ("grants a second of RLock's, 64 Java contenders", MORE, 4.0, OF_GRANTS, JAVA, "rlock"),
    ("the same, the commands alone", MORE, 4.0, OF_GRANTS, JAVA_COMMANDS, "rlock"),
    ("grants a second of RFairLock's", MORE, 9.0, OF_GRANTS, JAVA, "rfair"),
    ("the same, the commands alone", MORE, 9.0, OF_GRANTS, JAVA_COMMANDS, "rfair"),
    ("grants a second of the floor's, the commands alone", MORE, 0.95, OF_GRANTS, JAVA_COMMANDS, "baton"),
    ("server CPU a grant of RLock's", LESS, 1.0 / 3.0, OF_CPU, JAVA, "rlock"),
    ("the same, the commands alone", LESS, 1.0 / 3.0, OF_CPU, JAVA_COMMANDS, "rlock"),
    ("server CPU a grant of RFairLock's", LESS, 1.0 / 9.0, OF_CPU, JAVA, "rfair"),
    ("the same, the commands alone", LESS, 1.0 / 9.0, OF_CPU, JAVA_COMMANDS, "rfair"),
    ("p99 hand-off of RLock's", LESS, 0.2, OF_P99, JAVA, "rlock"),
    ("the same, the commands alone", LESS, 0.2, OF_P99, JAVA_COMMANDS, "rlock"),
    ("grants a second of the commands alone, 64 goroutines and one lock", MORE, 0.75, OF_GRANTS, GO, "commands"),
    ("grants a second of redsync's", MORE, 1.0, OF_GRANTS, GO, "redsync"),
    ("least grants of most, 64 Java contenders", MORE, 0.97, |row| row.share(), JAVA, OURS),
    ("least grants of most, 64 goroutines", MORE, 0.95, |row| row.share(), GO, OURS),
];

/// Of very many tasks of one process.
#[rustfmt::skip]
pub(super) const TASKS: &[Wanted] = &[
    ("connections of 1000 waiting goroutines, of those of the pool and one", LESS, 1.0, of_pool, GO, OURS),
];

fn of_pool(row: &Row<'_>) -> Option<Spread> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let pool = (GO_POOL * processors + 1) as f64;
    row.figure(CONNECTIONS).map(|count| count.scaled(pool))
}

/// Of readers, writers and permits, beside those of Redisson.
#[rustfmt::skip]
pub(super) const THREADS: &[Wanted] = &[
    ("grants a second of RReadWriteLock's, 6 of 64 threads write", MORE, 4.0, OF_GRANTS, ("java", "commands-threads"), "redisson-threads"),
    ("server CPU a grant of it", LESS, 1.0 / 3.0, OF_CPU, ("java", "commands-threads"), "redisson-threads"),
];
#[rustfmt::skip]
pub(super) const CALLS: &[Wanted] = &[
    ("grants a second of RReadWriteLock's, every tenth call writes", MORE, 4.0, OF_GRANTS, ("java", "commands-calls"), "redisson-calls"),
    ("server CPU a grant of it", LESS, 1.0 / 3.0, OF_CPU, ("java", "commands-calls"), "redisson-calls"),
];
#[rustfmt::skip]
pub(super) const PERMITS: &[Wanted] = &[
    ("grants a second of RPermitExpirableSemaphore's, 8 permits", MORE, 4.0, OF_GRANTS, ("java", "commands-permits"), "redisson-permits"),
    ("server CPU a grant of it", LESS, 1.0 / 3.0, OF_CPU, ("java", "commands-permits"), "redisson-permits"),
];

pub(super) fn goals(all: &[Contestant], wanted: &[Wanted]) -> Vec<Goal> {
    let goals = wanted.iter().map(|(what, goal, limit, cell, id, base)| {
        let own = all.iter().find(|contestant| contestant.id == *id);
        let own = own.filter(|contestant| contestant.left_out.is_none());
        goal(
            what,
            *limit,
            own.and_then(|own| cell(&Row { own, all, base })),
        )
    });
    goals.collect()
}

pub(super) fn panels(program: &Program, all: &[Contestant]) -> Vec<Panel> {
    let titles = [
        (GRANTS, "Grants a second, more is better"),
        (CPU, "Server CPU of a grant, less is better"),
        (P99, "p99 of a hand-off, less is better"),
    ];
    let panels = titles.map(|(figure, title)| Panel {
        title: format!(
            "{title}: 64 contenders for one lock, {}; this project's client, same language = 1",
            program.version
        ),
        bars: all
            .iter()
            .filter_map(|own| {
                let base = OURS;
                Some(Bar {
                    name: own.name.to_owned(),
                    ratio: Row { own, all, base }.over(figure)?,
                    ours: own.id.1 == OURS,
                })
            })
            .collect(),
    });
    panels.into()
}
