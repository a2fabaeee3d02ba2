//! The findings of a check.

use serde::Serialize;
use std::fmt::Display;

/// The severity of a finding, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Severity {
    /// Locks are lost, granted twice or unavailable, now or after the next restart or failover.
    Error,
    /// A problem under load or after another failure.
    Warning,
    /// The check could not be made.
    NotChecked,
    /// Everything works, but another setting would protect more and cost more.
    Advice,
    /// All is well.
    #[serde(rename = "ok")]
    Fine,
}

/// A line that fixes what was found.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "line", rename_all = "kebab-case")]
pub(crate) enum Fix {
    /// A command for the server that the finding is about (for a Sentinel's finding, for each Sentinel).
    Run(String),
    /// A line for the server's redis.conf or valkey.conf.
    Conf(String),
    /// A command for a shell on the server's machine.
    Shell(String),
    /// Any other action, in words.
    Do(String),
}

/// Why there is no fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// The server does not have it, so a check of it does not apply.
    Absent,
    /// The server could not be asked: the reason, and what would allow it.
    Refused(String, Vec<Fix>),
}

/// A fact, or why it is unknown.
pub(crate) type Seen<T> = Result<T, Unseen>;

/// The reason why something could not be asked, if no right would allow it.
pub(crate) fn unseen(why: impl Into<String>) -> Unseen {
    Unseen::Refused(why.into(), Vec::new())
}

/// A fact; `None` if it is absent.
pub(crate) fn known<T>(fact: Seen<T>) -> Seen<Option<T>> {
    match fact {
        Ok(fact) => Ok(Some(fact)),
        Err(Unseen::Absent) => Ok(None),
        Err(refused) => Err(refused),
    }
}

/// Ends a check unless it applies.
pub(crate) fn only(applies: bool) -> Seen<()> {
    applies.then_some(()).ok_or(Unseen::Absent)
}

/// A finding of a check.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    /// The name of the check, as in `docs/doctor.md`.
    pub(crate) check: &'static str,
    pub(crate) severity: Severity,
    /// The servers with this finding.
    pub(crate) servers: Vec<String>,
    pub(crate) seen: String,
    pub(crate) why: &'static str,
    pub(crate) fix: Vec<Fix>,
    /// Where the rule comes from.
    pub(crate) source: &'static str,
}

/// The findings of a check on a server, before the names of the check and the server are filled in.
pub(crate) type Judged = Seen<Vec<Finding>>;

impl Severity {
    /// A finding with this severity. The first fix is the recommended one.
    #[allow(clippy::unnecessary_wraps)] // it ends functions of which others fail
    pub(crate) fn says(self, seen: impl Into<String>, fix: Vec<Fix>) -> Judged {
        Ok(vec![Finding {
            check: "",
            severity: self,
            servers: Vec::new(),
            seen: seen.into(),
            why: "",
            fix,
            source: "",
        }])
    }
}

/// All is well.
pub(crate) fn ok(seen: impl Into<String>) -> Judged {
    Severity::Fine.says(seen, Vec::new())
}

/// A case of a check: whether it holds, its severity, its consequence and its fix.
pub(crate) type Case<'a> = (bool, Severity, &'a str, Vec<Fix>);

/// The finding of the first case that holds, or the finding that all is well.
pub(crate) fn first<const COUNT: usize>(seen: impl Display, cases: [Case; COUNT]) -> Judged {
    let Some((_, severity, follows, fix)) = cases.into_iter().find(|(holds, ..)| *holds) else {
        return ok(seen.to_string());
    };
    let colon = if follows.is_empty() { "" } else { ": " };
    severity.says(format!("{seen}{colon}{follows}"), fix)
}

/// The findings of all cases that hold, or the finding that all is well.
pub(crate) fn every<const COUNT: usize>(seen: impl Display, cases: [Case; COUNT]) -> Judged {
    let holding = cases.into_iter().filter(|(holds, ..)| *holds);
    let found: Seen<Vec<_>> = holding.map(|case| first(&seen, [case])).collect();
    or_ok(found?.concat(), seen.to_string())
}

/// The findings, or the finding that all is well if there are none.
pub(crate) fn or_ok(found: Vec<Finding>, seen: impl Into<String>) -> Judged {
    if found.is_empty() {
        ok(seen)
    } else {
        Ok(found)
    }
}

/// A command for the server.
pub(crate) fn run(line: impl Into<String>) -> Vec<Fix> {
    vec![Fix::Run(line.into())]
}

/// A line for its configuration.
pub(crate) fn conf(line: impl Into<String>) -> Vec<Fix> {
    vec![Fix::Conf(line.into())]
}

/// A command for a shell.
pub(crate) fn shell(line: impl Into<String>) -> Vec<Fix> {
    vec![Fix::Shell(line.into())]
}

/// Something else to do, in words.
pub(crate) fn act(what: impl Into<String>) -> Vec<Fix> {
    vec![Fix::Do(what.into())]
}

/// The command that changes a setting of the running server, and the line that keeps the change after a restart.
pub(crate) fn set(name: &str, value: impl Display) -> Vec<Fix> {
    let line = format!("{name} {value}");
    [run(format!("CONFIG SET {line}")), conf(line)].concat()
}
