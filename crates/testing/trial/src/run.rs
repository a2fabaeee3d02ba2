//! Runs scenarios, those that only wait beside each other.

use crate::failure::{Failure, Verdict, word};
use crate::languages::Language;
use crate::scenarios::Scenario;
use crate::site::Site;
use crate::stage::Stage;
use crate::table::Table;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

/// How it is run.
pub(crate) struct Settings {
    pub(crate) is_long: bool,
    /// How many scenarios at once, of those that only wait.
    pub(crate) jobs: usize,
}

/// Runs all scenarios with a language.
pub(crate) fn all(
    language: &Language,
    column: usize,
    scenarios: &[&Scenario],
    settings: &Settings,
    table: &mut Table,
) {
    let sound = Site::start();
    let prepared = language.prepare(&sound);
    let table = Mutex::new(table);
    let play = |row: usize| {
        let begun = Instant::now();
        let played = || one(language, scenarios[row], &sound, settings);
        let verdict = prepared.clone().and_then(|()| played());
        let name = scenarios[row].name;
        println!("{}, {name}: {}", language.name, word(&verdict));
        let mut table = table.lock().expect("the table");
        table.enter(row, column, verdict, begun.elapsed());
    };
    let (heavy, light): (Vec<_>, Vec<_>) =
        (0..scenarios.len()).partition(|row| scenarios[*row].is_heavy);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..settings.jobs.min(language.jobs) {
            scope.spawn(|| {
                while let Some(row) = light.get(next.fetch_add(1, SeqCst)) {
                    play(*row);
                }
            });
        }
    });
    for row in heavy {
        play(row);
    }
}

fn one(language: &Language, scenario: &Scenario, sound: &Site, settings: &Settings) -> Verdict {
    if !language.can_do(scenario.name) {
        return Err(Failure::Unsupported("by its own word".to_owned()));
    }
    let stage = Stage::new(&language.program, sound, settings.is_long);
    let played = catch_unwind(AssertUnwindSafe(|| (scenario.play)(&stage)));
    match played {
        // Notes of the meantime come before those that follow from them.
        Ok(played) => match (stage.judge_notes(), played) {
            (Err(noted), Err(Failure::Wrong(why))) if noted.to_string() != why => {
                Err(Failure::Wrong(format!("{noted}; and then: {why}")))
            }
            (Err(noted), _) => Err(noted),
            (Ok(()), Err(why)) => Err(why),
            (Ok(()), Ok(())) => stage.judge(),
        },
        Err(panic) => Err(Failure::from_panic(panic.as_ref())),
    }
}
