//! The end of a table: what happened how often, and what that comes to.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Each with how often it happened.
#[must_use]
pub fn list(counts: &BTreeMap<impl Display, impl Display>) -> String {
    let counts = counts.iter().map(|(what, times)| format!("{what} {times}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// One configuration at the end of a run.
pub struct End {
    /// As it is called on the command line.
    pub name: &'static str,
    /// Something was wrong that should be right.
    pub is_wrong: bool,
    /// What should have happened at least once and has not.
    pub missing: Vec<&'static str>,
}

impl End {
    /// Whether the run has to be told as failed for it.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.is_wrong || !self.missing.is_empty()
    }
}

/// Prints what is missing and the verdict; false where a configuration has failed.
#[must_use]
pub fn judge(ends: &[End]) -> bool {
    let mut failed = 0;
    for end in ends {
        for what in &end.missing {
            println!("did not happen in {}: {what}", end.name);
        }
        failed += usize::from(end.has_failed());
    }
    let passed = ends.len() - failed;
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed (configurations)");
    failed == 0
}
