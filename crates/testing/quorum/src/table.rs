//! The sums of a run, and whether it has shown what it should.

use crate::configuration::Configuration;
use crate::round::Outcomes;
use faults::sums::{End, judge, list};
use history::{Counts, Kind, Register};
use std::collections::BTreeMap;

/// How many violations of one round are shown.
const SHOWN: usize = 10;

/// What has to happen in every configuration, beside what has to become of the killed.
const FAULTS: [&str; 6] = [
    "kill -9 of servers",
    "SIGSTOP of servers",
    "tokens put ahead",
    "SIGSTOP of contenders",
    "kill -9 of contenders",
    "lost replies",
];

/// What has been counted so far of one configuration.
#[derive(Default)]
pub(crate) struct Sum {
    rounds: usize,
    counts: Counts,
    holds: usize,
    faults: BTreeMap<&'static str, u64>,
    denials: BTreeMap<String, usize>,
    violations: usize,
    /// The first time that a later acquire was given a lower token.
    fallen_token: Option<String>,
}

impl Sum {
    /// Adds a round. What is wrong with a lock that should be right is shown at once.
    pub(crate) fn add(&mut self, configuration: &Configuration, seed: u64, outcomes: &Outcomes) {
        self.rounds += 1;
        self.counts += &outcomes.report.counts;
        self.holds += outcomes.holds;
        for (fault, times) in &outcomes.faults {
            *self.faults.entry(fault).or_default() += times;
        }
        for (reason, times) in &outcomes.denials {
            *self.denials.entry(reason.clone()).or_default() += times;
        }
        let violations = &outcomes.report.violations;
        if self.fallen_token.is_none() {
            let mut violations = violations.iter();
            let fall = violations.find(|found| found.kind == Kind::TokenOrder);
            self.fallen_token = fall.map(ToString::to_string);
        }
        let wrongs: Vec<String> = violations
            .iter()
            .map(ToString::to_string)
            .chain(outcomes.troubles.iter().cloned())
            .collect();
        self.violations += wrongs.len();
        if !configuration.is_wrong() {
            for wrong in wrongs.iter().take(SHOWN) {
                println!("{}, seed {seed}: {wrong}", configuration.name);
            }
        }
    }

    /// What should have happened at least once and has not.
    pub(crate) fn missing(&self, configuration: &Configuration) -> Vec<&'static str> {
        if configuration.is_wrong() {
            let is_found = self.fallen_token.is_some();
            return if is_found {
                Vec::new()
            } else {
                vec!["a token that falls"]
            };
        }
        let restart = if configuration.keeps {
            "restarts with all memory"
        } else {
            "restarts with no memory"
        };
        let times = |fault: &str| self.faults.get(fault).copied().unwrap_or_default();
        let faults = FAULTS.into_iter().chain([restart]);
        let mut missing: Vec<_> = faults.filter(|fault| times(fault) == 0).collect();
        let (taken, refused) = self.writes();
        for (what, count) in [
            ("holds", self.holds),
            ("writes taken", taken),
            ("stale writes refused", refused),
        ] {
            if count == 0 {
                missing.push(what);
            }
        }
        missing
    }

    /// Taken, and stale and refused.
    fn writes(&self) -> (usize, usize) {
        let writes = self.counts.writes.get(&Register::Sql);
        let writes = writes.copied().unwrap_or_default();
        (writes.taken, writes.stale_refused)
    }

    fn end(&self, configuration: &Configuration) -> End {
        End {
            name: configuration.name,
            is_wrong: self.violations > 0 && !configuration.is_wrong(),
            missing: self.missing(configuration),
        }
    }
}

/// Prints them; false where something is wrong, or did not happen that should have.
pub(crate) fn print(sums: &[(&Configuration, Sum)]) -> bool {
    println!(
        "\n{:<14} {:>6} {:>10} {:>7} {:>8} {:>14} {:>10}",
        "", "", "", "", "writes", "stale writes", ""
    );
    println!(
        "{:<14} {:>6} {:>10} {:>7} {:>8} {:>14} {:>10}",
        "configuration", "rounds", "operations", "holds", "taken", "refused", "violations"
    );
    for (configuration, sum) in sums {
        let (taken, refused) = sum.writes();
        let operations = sum.counts.operations + taken + refused;
        let verdict = if configuration.is_wrong() {
            "  (it is wrong, and must have some)"
        } else {
            ""
        };
        println!(
            "{:<14} {:>6} {operations:>10} {:>7} {taken:>8} {refused:>14} {:>10}{verdict}",
            configuration.name, sum.rounds, sum.holds, sum.violations
        );
    }
    println!();
    for (configuration, sum) in sums {
        println!("{:<14} {}", configuration.name, list(&sum.faults));
        println!("{:<14} not obtained: {}", "", list(&sum.denials));
        if let Some(fall) = sum.fallen_token.iter().find(|_| configuration.is_wrong()) {
            println!("{:<14} found out by: {fall}", "");
        }
    }
    let ends: Vec<_> = sums
        .iter()
        .map(|(configuration, sum)| sum.end(configuration))
        .collect();
    judge(&ends)
}

#[cfg(test)]
mod tests {
    use super::{FAULTS, Sum};
    use crate::configuration::{ALL, Configuration};
    use crate::round::Outcomes;
    use history::{Kind, Register, Report, Violation, Writes};
    use std::collections::BTreeMap;

    /// A round in which everything happened.
    fn outcomes() -> Outcomes {
        let restarts = ["restarts with all memory", "restarts with no memory"];
        let mut report = Report::default();
        let writes = Writes {
            taken: 1,
            stale_refused: 1,
        };
        report.counts.writes.insert(Register::Sql, writes);
        Outcomes {
            report,
            faults: FAULTS.into_iter().chain(restarts).map(|f| (f, 1)).collect(),
            holds: 1,
            denials: BTreeMap::new(),
            troubles: Vec::new(),
        }
    }

    fn sum(configuration: &Configuration, outcomes: &Outcomes) -> Sum {
        let mut sum = Sum::default();
        sum.add(configuration, 1, outcomes);
        sum
    }

    fn violation(kind: Kind) -> Violation {
        Violation {
            kind,
            key: "lock".to_owned(),
            text: "an example".to_owned(),
        }
    }

    #[test]
    fn what_should_happen_and_has_not_is_missing() {
        let [kept, ..] = &ALL;
        assert_eq!(sum(kept, &outcomes()).missing(kept), [""; 0]);
        for fault in FAULTS.into_iter().chain(["restarts with all memory"]) {
            let mut without = outcomes();
            without.faults.insert(fault, 0);
            assert_eq!(sum(kept, &without).missing(kept), [fault]);
        }
        let mut without = outcomes();
        without.holds = 0;
        without.report.counts.writes.clear();
        let nothing = ["holds", "writes taken", "stale writes refused"];
        assert_eq!(sum(kept, &without).missing(kept), nothing);
    }

    #[test]
    fn a_right_lock_fails_by_a_violation_and_the_wrong_one_without_its_own() {
        let [kept, lost, wrong] = &ALL;
        let mut found = outcomes();
        found.report.violations.push(violation(Kind::TokenOrder));
        let mut other = outcomes();
        other.report.violations.push(violation(Kind::Exclusion));
        let mut troubled = outcomes();
        troubled.troubles.push("a trouble".to_owned());
        let failed = |outcomes| [kept, lost, wrong].map(|c| sum(c, outcomes).end(c).has_failed());
        let nothing = outcomes();
        assert_eq!(failed(&nothing), [false, false, true]);
        assert_eq!(failed(&found), [true, true, false]);
        assert_eq!(failed(&other), [true, true, true]);
        assert_eq!(failed(&troubled), [true, true, true]);
    }
}
