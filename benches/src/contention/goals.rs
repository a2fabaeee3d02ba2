//! What the contests are to show, and their bars.

use super::contestant::{CPU, Contestant, GRANTS, Id, OURS, P99, is_ours, ratio};
use crate::part::{Bar, Goal, Panel};
use crate::servers::Program;
use crate::stats::Spread;

/// A figure of a way in a language is to be at least, or at most, so many times that of another way.
type Wanted = (
    &'static str,
    fn(&'static str, f64, Option<Spread>) -> Goal,
    f64,
    usize,
    Id,
    &'static str,
);

const MORE: fn(&'static str, f64, Option<Spread>) -> Goal = Goal::at_least;
const LESS: fn(&'static str, f64, Option<Spread>) -> Goal = Goal::at_most;
const JAVA: Id = ("java", OURS);
const JAVA_COMMANDS: Id = ("java", "commands");
const GO: Id = ("go", OURS);

/// Of one client without contention.
#[rustfmt::skip]
pub(super) const ALONE: &[Wanted] = &[
    ("pairs a second of RLock's, one Java client", MORE, 2.0, GRANTS, JAVA, "rlock"),
    ("the same, the commands alone", MORE, 2.0, GRANTS, JAVA_COMMANDS, "rlock"),
    ("pairs a second of the commands alone, one Go client", MORE, 0.9, GRANTS, GO, "commands"),
    ("pairs a second of redsync's, one Go client", MORE, 1.0, GRANTS, GO, "redsync"),
];

/// Of 64 contenders for 64 locks.
#[rustfmt::skip]
pub(super) const APART: &[Wanted] = &[
    ("pairs a second of the commands alone, 64 goroutines and 64 locks", MORE, 0.9, GRANTS, GO, "commands"),
];

/// Of 64 contenders for one lock.
#[rustfmt::skip]
pub(super) const MANY: &[Wanted] = &[
    ("grants a second of RLock's, 64 Java contenders", MORE, 4.0, GRANTS, JAVA, "rlock"),
    ("the same, the commands alone", MORE, 4.0, GRANTS, JAVA_COMMANDS, "rlock"),
    ("grants a second of RFairLock's", MORE, 9.0, GRANTS, JAVA, "rfair"),
    ("the same, the commands alone", MORE, 9.0, GRANTS, JAVA_COMMANDS, "rfair"),
    ("grants a second of the floor's, the commands alone", MORE, 0.95, GRANTS, JAVA_COMMANDS, "baton"),
    ("server CPU a grant of RLock's", LESS, 1.0 / 3.0, CPU, JAVA, "rlock"),
    ("the same, the commands alone", LESS, 1.0 / 3.0, CPU, JAVA_COMMANDS, "rlock"),
    ("server CPU a grant of RFairLock's", LESS, 1.0 / 9.0, CPU, JAVA, "rfair"),
    ("the same, the commands alone", LESS, 1.0 / 9.0, CPU, JAVA_COMMANDS, "rfair"),
    ("p99 hand-off of RLock's", LESS, 0.2, P99, JAVA, "rlock"),
    ("the same, the commands alone", LESS, 0.2, P99, JAVA_COMMANDS, "rlock"),
    ("grants a second of the commands alone, 64 goroutines and one lock", MORE, 0.75, GRANTS, GO, "commands"),
    ("grants a second of redsync's", MORE, 1.0, GRANTS, GO, "redsync"),
];

pub(super) fn goals<'a>(
    contestants: &'a [Contestant],
    wanted: &'a [Wanted],
) -> impl Iterator<Item = Goal> + 'a {
    wanted.iter().map(|(what, goal, limit, figure, id, base)| {
        let found = ratio(contestants, *figure, *id, base).quartiles();
        goal(what, *limit, found)
    })
}

/// How equally 64 contenders for one lock get it.
pub(super) fn shares(contestants: &[Contestant]) -> [Goal; 2] {
    let share = |language| {
        let ours = contestants.iter().find(|c| c.id == (language, OURS))?;
        let is_there = ours.runner.is_ok();
        is_there.then(|| Spread::of(ours.share())).flatten()
    };
    [
        Goal::at_least(
            "least grants of most, 64 Java contenders",
            0.97,
            share("java"),
        ),
        Goal::at_least("least grants of most, 64 goroutines", 0.95, share("go")),
    ]
}

pub(super) fn panels(program: &Program, contestants: &[Contestant]) -> Vec<Panel> {
    let titles = [
        (GRANTS, "Grants a second, more is better"),
        (CPU, "Server CPU of a grant, less is better"),
        (P99, "p99 of a hand-off, less is better"),
    ];
    titles
        .map(|(figure, title)| Panel {
            title: format!(
                "{title}: 64 contenders for one lock, {}; this project's client, same language = 1",
                program.version
            ),
            bars: contestants
                .iter()
                .filter_map(|contestant| {
                    let ratio = ratio(contestants, figure, contestant.id, OURS);
                    Some(Bar {
                        name: contestant.name.to_owned(),
                        ratio: ratio.quartiles()?,
                        ours: is_ours(contestant.id),
                    })
                })
                .collect(),
        })
        .into()
}
