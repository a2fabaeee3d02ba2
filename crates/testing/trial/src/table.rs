//! The table of results: a line for each scenario, a column for each language.

use crate::failure::{Failure, Verdict, word};
use std::time::Duration;

/// The table, as it fills.
pub(crate) struct Table {
    languages: Vec<String>,
    rows: Vec<(&'static str, Vec<Option<Cell>>)>,
}

struct Cell {
    verdict: Verdict,
    took: Duration,
}

impl Table {
    pub(crate) fn new(languages: Vec<String>, scenarios: &[&'static str]) -> Self {
        let row = |name: &&'static str| (*name, languages.iter().map(|_| None).collect());
        let rows = scenarios.iter().map(row).collect();
        Self { languages, rows }
    }

    pub(crate) fn enter(
        &mut self,
        scenario: usize,
        language: usize,
        verdict: Verdict,
        took: Duration,
    ) {
        self.rows[scenario].1[language] = Some(Cell { verdict, took });
    }

    /// Prints it, and then why what has failed has failed; whether nothing has.
    pub(crate) fn print(&self) -> bool {
        const WIDTH: usize = 14;
        print!("\n{:<26}", "scenario");
        self.languages
            .iter()
            .for_each(|name| print!(" {name:>WIDTH$}"));
        println!();
        for (name, cells) in &self.rows {
            print!("{name:<26}");
            for cell in cells {
                print!(
                    " {:>WIDTH$}",
                    cell.as_ref().map_or_else(String::new, Cell::word)
                );
            }
            println!();
        }
        println!();
        let (mut passed, mut failed) = (0, 0);
        for (name, cells) in &self.rows {
            for (language, cell) in self.languages.iter().zip(cells) {
                match cell.as_ref().map(|cell| &cell.verdict) {
                    Some(Err(Failure::Wrong(why))) => {
                        failed += 1;
                        println!("{language}, {name}: {why}");
                    }
                    Some(Ok(())) => passed += 1,
                    _ => {}
                }
            }
        }
        let verdict = if failed == 0 { "ok" } else { "FAILED" };
        println!(
            "\ntest result: {verdict}. {passed} passed; {failed} failed (scenarios of all languages)"
        );
        failed == 0
    }
}

impl Cell {
    fn word(&self) -> String {
        let word = word(&self.verdict);
        if let Err(Failure::Unsupported(_)) = self.verdict {
            return word.to_owned();
        }
        format!("{word} {:4.1}s", self.took.as_secs_f32())
    }
}
