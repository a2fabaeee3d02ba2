//! The findings of a check.

use serde::Serialize;
use std::fmt::Display;

/// How bad it is. The order is that of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    /// Locks are lost, granted twice or not to be had; or will be after the next restart or failover.
    Error,
    /// It hurts under load, or in a bad hour.
    Warning,
    /// The check could not be made.
    NotChecked,
    /// It works as it should; another setting would protect more, and cost more.
    Advice,
    /// All is well.
    Ok,
}

/// A line that fixes what was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "line", rename_all = "kebab-case")]
pub(crate) enum Fix {
    /// A command for the server that the finding is about (for a Sentinel's finding, for each Sentinel).
    Run(String),
    /// A line for its redis.conf, or valkey.conf.
    Conf(String),
    /// A command for a shell on its machine.
    Shell(String),
    /// The other action.
    Do(String),
}

/// Why something was not checked, and what would let it be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unseen {
    pub(crate) why: String,
    pub(crate) fix: Vec<Fix>,
}

impl Unseen {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self {
            why: why.into(),
            fix: Vec::new(),
        }
    }

    pub(crate) fn fix(mut self, fix: Fix) -> Self {
        self.fix.push(fix);
        self
    }
}

/// A fact, or why it is unknown.
pub(crate) type Seen<T> = Result<T, Unseen>;

/// The verdict of a check on its facts.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    pub(crate) severity: Severity,
    pub(crate) seen: String,
    pub(crate) fix: Vec<Fix>,
}

/// Some verdicts; none where the check has no place. The error is what could not be seen.
pub(crate) type Judged = Seen<Vec<Verdict>>;

impl Verdict {
    pub(crate) fn unseen(unseen: Unseen) -> Self {
        Self {
            severity: Severity::NotChecked,
            seen: unseen.why,
            fix: unseen.fix,
        }
    }
}

#[allow(clippy::unnecessary_wraps)] // it ends functions of which others fail
fn judged(severity: Severity, seen: impl Into<String>, fix: Vec<Fix>) -> Judged {
    let seen = seen.into();
    Ok(vec![Verdict {
        severity,
        seen,
        fix,
    }])
}

/// All is well.
pub(crate) fn ok(seen: impl Into<String>) -> Judged {
    judged(Severity::Ok, seen, vec![])
}

/// All is well, and this would be another way.
pub(crate) fn ok_or(seen: impl Into<String>, other: Vec<Fix>) -> Judged {
    judged(Severity::Ok, seen, other)
}

/// As [`Severity::Advice`]. The first line is the one to take when in doubt, here and below.
pub(crate) fn advice(seen: impl Into<String>, fix: Vec<Fix>) -> Judged {
    judged(Severity::Advice, seen, fix)
}

/// As [`Severity::Warning`].
pub(crate) fn warning(seen: impl Into<String>, fix: Vec<Fix>) -> Judged {
    judged(Severity::Warning, seen, fix)
}

/// As [`Severity::Error`].
pub(crate) fn error(seen: impl Into<String>, fix: Vec<Fix>) -> Judged {
    judged(Severity::Error, seen, fix)
}

/// A finding, or that all is well.
pub(crate) fn or_ok(found: Vec<Verdict>, seen: impl Into<String>) -> Judged {
    if found.is_empty() {
        ok(seen)
    } else {
        Ok(found)
    }
}

/// Commands for the server.
pub(crate) fn run<const N: usize>(lines: [&str; N]) -> Vec<Fix> {
    lines.map(|line| Fix::Run(line.to_owned())).to_vec()
}

/// Commands for a shell.
pub(crate) fn shell<const N: usize>(lines: [&str; N]) -> Vec<Fix> {
    lines.map(|line| Fix::Shell(line.to_owned())).to_vec()
}

/// Something else to do, in words.
pub(crate) fn act(what: impl Into<String>) -> Vec<Fix> {
    vec![Fix::Do(what.into())]
}

/// A setting of the running server, and the line that keeps it over a restart.
pub(crate) fn set(name: &str, value: impl Display) -> Vec<Fix> {
    vec![
        Fix::Run(format!("CONFIG SET {name} {value}")),
        Fix::Conf(format!("{name} {value}")),
    ]
}

/// A verdict, with what it is about.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// The name of the check, as in `docs/doctor.md`.
    pub(crate) check: &'static str,
    pub(crate) severity: Severity,
    /// The servers that it was found on.
    pub(crate) servers: Vec<String>,
    pub(crate) seen: String,
    pub(crate) why: &'static str,
    pub(crate) fix: Vec<Fix>,
    /// Where the rule comes from.
    pub(crate) source: &'static str,
}
