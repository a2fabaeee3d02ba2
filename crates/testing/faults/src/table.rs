//! The sums of a run, and whether it has shown what it should.

use crate::configuration::{Configuration, Losses};
use crate::round::Outcomes;
use faults::sums::{End, judge, list};
use history::{Counts, Register};
use std::collections::BTreeMap;

/// What has been counted so far, by configuration.
#[derive(Default)]
pub(crate) struct Table {
    sums: BTreeMap<&'static str, Sum>,
    left_out: BTreeMap<&'static str, String>,
}

#[derive(Default)]
struct Sum {
    rounds: usize,
    counts: Counts,
    faults: BTreeMap<&'static str, u64>,
    violations: usize,
}

impl Table {
    /// Adds a round. What is wrong with it is shown at once, with its seed.
    pub(crate) fn add(&mut self, configuration: &Configuration, seed: u64, outcomes: &Outcomes) {
        let sum = self.sums.entry(configuration.name).or_default();
        sum.rounds += 1;
        sum.counts += &outcomes.report.counts;
        for (fault, times) in &outcomes.faults {
            *sum.faults.entry(fault).or_default() += times;
        }
        let wrongs = outcomes.wrongs();
        sum.violations += wrongs.len();
        for wrong in wrongs {
            println!("{}, seed {seed}: {wrong}", configuration.name);
        }
    }

    /// Notes that a configuration cannot be had here.
    pub(crate) fn leave_out(&mut self, configuration: &Configuration, reason: String) {
        self.left_out.insert(configuration.name, reason);
    }

    /// Whether something has not happened yet that should.
    pub(crate) fn lacks(&self, configuration: &Configuration) -> bool {
        let sum = self.sums.get(configuration.name);
        sum.is_some_and(|sum| !sum.missing(configuration).is_empty())
    }

    /// Prints it; false where something is wrong, or did not happen that should have.
    pub(crate) fn print(&self, configurations: &[Configuration]) -> bool {
        println!(
            "\n{:<22} {:>6} {:>10} {:>7} {:>9} {:>6} {:>13} {:>13} {:>10}",
            "", "", "", "", "", "lost", "script", "SQL", ""
        );
        println!(
            "{:<22} {:>6} {:>10} {:>7} {:>9} {:>6} {:>13} {:>13} {:>10}",
            "configuration",
            "rounds",
            "operations",
            "grants",
            "hand-offs",
            "grants",
            "taken/stale",
            "taken/stale",
            "violations"
        );
        for (name, sum) in &self.sums {
            let counts = &sum.counts;
            let writes = |register| {
                let writes = counts.writes.get(&register).copied().unwrap_or_default();
                format!("{}/{}", writes.taken, writes.stale_refused)
            };
            println!(
                "{name:<22} {:>6} {:>10} {:>7} {:>9} {:>6} {:>13} {:>13} {:>10}",
                sum.rounds,
                counts.operations,
                counts.grants,
                counts.hand_offs,
                counts.lost_grants,
                writes(Register::Script),
                writes(Register::Sql),
                sum.violations
            );
        }
        println!();
        for (name, sum) in &self.sums {
            println!("{name:<22} {}", list(&sum.faults));
        }
        for (name, reason) in &self.left_out {
            println!("{name:<22} left out: {reason}");
        }
        let ends: Vec<_> = configurations
            .iter()
            .filter_map(|configuration| {
                let sum = self.sums.get(configuration.name)?;
                Some(End {
                    name: configuration.name,
                    is_wrong: sum.violations > 0,
                    missing: sum.missing(configuration),
                })
            })
            .collect();
        judge(&ends)
    }
}

impl Sum {
    /// What should have happened at least once and has not.
    fn missing(&self, configuration: &Configuration) -> Vec<&'static str> {
        let counts = &self.counts;
        let writes = |register| counts.writes.get(&register).copied().unwrap_or_default();
        let (script, sql) = (writes(Register::Script), writes(Register::Sql));
        let mut cells = vec![
            ("grants", counts.grants),
            ("hand-offs", counts.hand_offs),
            ("re-entries", counts.re_entries),
            ("writes taken by the script", script.taken),
            ("stale writes refused by the script", script.stale_refused),
            ("writes taken by SQL", sql.taken),
            ("stale writes refused by SQL", sql.stale_refused),
        ];
        if configuration.losses == Losses::Must {
            cells.push(("lost grants", counts.lost_grants));
        }
        for fault in &configuration.faults {
            let times = self.faults.get(fault.name()).copied().unwrap_or_default();
            cells.push((fault.name(), usize::try_from(times).unwrap_or(usize::MAX)));
        }
        if configuration.evicts() {
            let keys = self.faults.get("evicted keys").copied().unwrap_or_default();
            cells.push(("evictions", usize::try_from(keys).unwrap_or(usize::MAX)));
        }
        cells
            .into_iter()
            .filter(|(_, times)| *times == 0)
            .map(|(what, _)| what)
            .collect()
    }
}
