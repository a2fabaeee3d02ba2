//! What the contests are to show, and their bars.

use super::{CPU, Contestant, GRANTS, OURS, P99, is_ours, ratio};
use crate::part::{Bar, Goal, Panel};
use crate::servers::Program;
use crate::stats::Spread;

/// Of one client without contention.
pub(super) fn alone(contestants: &[Contestant]) -> Vec<Goal> {
    let of = |way| in_java(contestants, GRANTS, way, "rlock");
    vec![
        Goal::at_least("pairs a second of RLock's, one Java client", 2.0, of(OURS)),
        Goal::at_least("the same, the commands alone", 2.0, of("commands")),
        Goal::at_least(
            "pairs a second of the commands alone, one Go client",
            0.9,
            in_go(contestants, "commands"),
        ),
        Goal::at_least(
            "pairs a second of redsync's, one Go client",
            1.0,
            in_go(contestants, "redsync"),
        ),
    ]
}

/// Of 64 contenders for 64 locks.
pub(super) fn apart(contestants: &[Contestant]) -> Vec<Goal> {
    vec![Goal::at_least(
        "pairs a second of the commands alone, 64 goroutines and 64 locks",
        0.9,
        in_go(contestants, "commands"),
    )]
}

/// Of 64 contenders for one lock.
pub(super) fn many(contestants: &[Contestant]) -> Vec<Goal> {
    let of = |figure, way, base| in_java(contestants, figure, way, base);
    let share = |language| {
        let ours = contestants.iter().find(|c| c.id == (language, OURS))?;
        let is_there = ours.runner.is_ok();
        is_there.then(|| Spread::of(ours.share())).flatten()
    };
    vec![
        Goal::at_least(
            "grants a second of RLock's, 64 Java contenders",
            4.0,
            of(GRANTS, OURS, "rlock"),
        ),
        Goal::at_least(
            "the same, the commands alone",
            4.0,
            of(GRANTS, "commands", "rlock"),
        ),
        Goal::at_least(
            "grants a second of RFairLock's",
            9.0,
            of(GRANTS, OURS, "rfair"),
        ),
        Goal::at_least(
            "the same, the commands alone",
            9.0,
            of(GRANTS, "commands", "rfair"),
        ),
        Goal::at_least(
            "grants a second of the floor's, the commands alone",
            0.95,
            of(GRANTS, "commands", "baton"),
        ),
        Goal::at_most(
            "server CPU a grant of RLock's",
            1.0 / 3.0,
            of(CPU, OURS, "rlock"),
        ),
        Goal::at_most(
            "the same, the commands alone",
            1.0 / 3.0,
            of(CPU, "commands", "rlock"),
        ),
        Goal::at_most(
            "server CPU a grant of RFairLock's",
            1.0 / 9.0,
            of(CPU, OURS, "rfair"),
        ),
        Goal::at_most(
            "the same, the commands alone",
            1.0 / 9.0,
            of(CPU, "commands", "rfair"),
        ),
        Goal::at_most("p99 hand-off of RLock's", 0.2, of(P99, OURS, "rlock")),
        Goal::at_most(
            "the same, the commands alone",
            0.2,
            of(P99, "commands", "rlock"),
        ),
        Goal::at_least(
            "least grants of most, 64 Java contenders",
            0.97,
            share("java"),
        ),
        Goal::at_least(
            "grants a second of the commands alone, 64 goroutines and one lock",
            0.75,
            in_go(contestants, "commands"),
        ),
        Goal::at_least(
            "grants a second of redsync's",
            1.0,
            in_go(contestants, "redsync"),
        ),
        Goal::at_least("least grants of most, 64 goroutines", 0.95, share("go")),
    ]
}

/// Grants a second of this project's client in Go, of those of another way there.
fn in_go(contestants: &[Contestant], base: &str) -> Option<Spread> {
    ratio(contestants, GRANTS, ("go", OURS), base).quartiles()
}

fn in_java(
    contestants: &[Contestant],
    figure: usize,
    way: &'static str,
    base: &str,
) -> Option<Spread> {
    ratio(contestants, figure, ("java", way), base).quartiles()
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
