//! The sums of all runs, and whether they have shown what they should.

use crate::run::Findings;
use crate::tally::Tally;
use crate::workload::Configuration;

/// How much of what is wrong with one run is shown.
const SHOWN: usize = 10;

/// Every configuration, with what has been counted so far.
pub(crate) struct Table {
    columns: Vec<(&'static str, &'static str)>,
    rows: Vec<Row>,
}

/// A configuration and its sums.
struct Row {
    configuration: Box<dyn Configuration>,
    runs: usize,
    tally: Tally,
    wrongs: usize,
    /// Why it cannot be had here.
    left_out: Option<String>,
    /// The first violation that had to be found.
    shown: Option<String>,
}

impl Table {
    pub(crate) fn new(
        columns: Vec<(&'static str, &'static str)>,
        configurations: Vec<Box<dyn Configuration>>,
    ) -> Self {
        let rows = configurations.into_iter().map(Row::new).collect();
        Self { columns, rows }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Plays a configuration once. What is wrong is shown at once, with the seed.
    pub(crate) fn play(&mut self, index: usize, seed: u64) {
        let row = &mut self.rows[index];
        match row.configuration.run(seed) {
            Ok(findings) => row.add(seed, &findings),
            Err(reason) => row.left_out = Some(reason),
        }
    }

    /// Whether something has not happened yet that should.
    pub(crate) fn lacks(&self, index: usize) -> bool {
        !self.rows[index].missing().is_empty()
    }

    /// Whether it is played until the time is up.
    pub(crate) fn lasts(&self, index: usize) -> bool {
        let row = &self.rows[index];
        row.left_out.is_none() && row.configuration.must_show().is_none()
    }

    /// Prints it; false where something is wrong, or did not happen that should have.
    pub(crate) fn print(&self) -> bool {
        print!("\n{:<22} {:>6}", "configuration", "runs");
        for (heading, _) in &self.columns {
            print!(" {heading:>10}");
        }
        println!(" {:>10}", "violations");
        for row in self.played() {
            print!("{:<22} {:>6}", row.configuration.name(), row.runs);
            for (_, what) in &self.columns {
                print!(" {:>10}", row.tally.get(what));
            }
            println!(" {:>10}", row.wrongs);
        }
        println!();
        let columns: Vec<_> = self.columns.iter().map(|(_, what)| *what).collect();
        for row in &self.rows {
            let name = row.configuration.name();
            match &row.left_out {
                Some(reason) => println!("{name:<22} left out: {reason}"),
                None => println!("{name:<22} {}", row.tally.without(&columns)),
            }
            if let Some(shown) = &row.shown {
                println!("{:<22} wrong on purpose, and found out: {shown}", "");
            }
        }
        self.judge()
    }

    fn judge(&self) -> bool {
        for row in self.played() {
            for what in row.missing() {
                println!("did not happen in {}: {what}", row.configuration.name());
            }
        }
        let failed = self.played().filter(|row| row.has_failed()).count();
        let passed = self.played().count() - failed;
        let verdict = if failed == 0 { "ok" } else { "FAILED" };
        println!("\ntest result: {verdict}. {passed} passed; {failed} failed (configurations)");
        failed == 0
    }

    fn played(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.left_out.is_none())
    }
}

impl Row {
    fn new(configuration: Box<dyn Configuration>) -> Self {
        Self {
            configuration,
            runs: 0,
            tally: Tally::default(),
            wrongs: 0,
            left_out: None,
            shown: None,
        }
    }

    fn add(&mut self, seed: u64, findings: &Findings) {
        self.runs += 1;
        self.tally.merge(&findings.tally);
        self.wrongs += findings.wrongs().count();
        let Some(kind) = self.configuration.must_show() else {
            for wrong in findings.wrongs().take(SHOWN) {
                println!("{}, seed {seed}: {wrong}", self.configuration.name());
            }
            return;
        };
        let mut found = findings
            .violations
            .iter()
            .filter(|found| found.kind == kind);
        if self.shown.is_none() {
            self.shown = found.next().map(ToString::to_string);
        }
    }

    /// The events that should have happened at least once and have not.
    fn missing(&self) -> Vec<&'static str> {
        match self.configuration.must_show() {
            _ if self.left_out.is_some() => Vec::new(),
            None => self.tally.missing(self.configuration.wanted()),
            Some(_) if self.shown.is_some() => Vec::new(),
            Some(_) => vec!["the violation that it is for"],
        }
    }

    fn has_failed(&self) -> bool {
        let is_right = self.configuration.must_show().is_none();
        (is_right && self.wrongs > 0) || !self.missing().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::Row;
    use crate::run::Findings;
    use crate::workload::Configuration;
    use history::{Kind, Violation};

    /// A configuration that wants one thing, or must show something wrong.
    struct Example(Option<Kind>);

    impl Configuration for Example {
        fn name(&self) -> &'static str {
            "example"
        }

        fn run(&self, _seed: u64) -> Result<Findings, String> {
            Ok(Findings::default())
        }

        fn wanted(&self) -> Vec<&'static str> {
            vec!["a fault"]
        }

        fn must_show(&self) -> Option<Kind> {
            self.0
        }
    }

    fn row(must_show: Option<Kind>, findings: &Findings) -> Row {
        let mut row = Row::new(Box::new(Example(must_show)));
        row.add(1, findings);
        row
    }

    /// A run in which everything happened, and this was wrong.
    fn findings(violation: Option<Kind>, trouble: Option<&str>) -> Findings {
        let mut findings = Findings::default();
        findings.tally.add("a fault", 1);
        let violation = violation.map(|kind| Violation {
            kind,
            key: "lock".to_owned(),
            text: "an example".to_owned(),
        });
        findings.violations.extend(violation);
        findings.troubles.extend(trouble.map(str::to_owned));
        findings
    }

    #[test]
    fn what_should_happen_and_has_not_is_missing() {
        assert_eq!(row(None, &findings(None, None)).missing(), [""; 0]);
        let without = row(None, &Findings::default());
        assert_eq!(without.missing(), ["a fault"]);
        assert!(without.has_failed());
    }

    #[test]
    fn a_right_lock_fails_by_a_violation_and_a_wrong_one_without_its_own() {
        let order = Some(Kind::TokenOrder);
        let failed = |findings| [None, order].map(|c| row(c, &findings).has_failed());
        assert_eq!(failed(findings(None, None)), [false, true]);
        assert_eq!(failed(findings(order, None)), [true, false]);
        assert_eq!(failed(findings(Some(Kind::Exclusion), None)), [true, true]);
        assert_eq!(failed(findings(None, Some("a trouble"))), [true, true]);
    }
}
