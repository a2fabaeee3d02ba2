//! The report of the findings, for people and for programs.

use crate::facts::Facts;
use crate::finding::{Finding, Fix, Severity};
use redis_lock_tool::words;
use serde::Serialize;
use std::fmt::Write;
use std::iter;

/// The exit code if nothing, or not everything, could be checked.
const COULD_NOT_LOOK: u8 = 3;

/// The whole report.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) exit: u8,
    /// Why nothing could be checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    servers: Vec<Server>,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Server {
    address: String,
    role: &'static str,
    /// The server software and its version.
    #[serde(rename = "server")]
    version: String,
    held: i64,
    waiting: i64,
    queued: i64,
    /// Open sessions.
    programs: i64,
}

impl Report {
    pub(crate) fn new(facts: &Facts, findings: Vec<Finding>) -> Self {
        let worst = findings.iter().map(|finding| finding.severity).min();
        let exit = match worst {
            Some(Severity::Error) => 2,
            Some(Severity::Warning) => 1,
            Some(Severity::NotChecked) => COULD_NOT_LOOK,
            Some(Severity::Advice | Severity::Fine) | None => 0,
        };
        let servers = facts.nodes.iter().map(|node| Server {
            address: node.address.clone(),
            role: match node.told("role") {
                Ok("slave") => "replica",
                Ok(_) => "primary",
                _ => "unknown",
            },
            version: match node.server() {
                Ok((name, version)) => format!("{name} {version}"),
                Err(_) => "unknown".to_owned(),
            },
            held: node.count("lock_held").unwrap_or(0),
            waiting: node.count("lock_waiting").unwrap_or(0),
            queued: node.count("lock_queued").unwrap_or(0),
            programs: node.count("lock_sessions").unwrap_or(0),
        });
        Self {
            exit,
            error: None,
            servers: servers.collect(),
            findings,
        }
    }

    /// The report if nothing could be checked.
    pub(crate) fn nothing(why: String) -> Self {
        Self {
            exit: COULD_NOT_LOOK,
            error: Some(why),
            servers: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// The report as text, most severe findings first. All checks that are fine share one line, unless `all` is true.
    pub(crate) fn text(&self, all: bool) -> String {
        let mut text = String::new();
        for server in &self.servers {
            let _ = writeln!(
                text,
                "{}: {}, {}, locks held: {}, calls blocked: {}, queued: {}, programs: {}",
                plain(&server.address),
                server.role,
                plain(&server.version),
                server.held,
                server.waiting,
                server.queued,
                server.programs
            );
        }
        let of = |wanted| {
            let all = self.findings.iter();
            all.filter(move |one: &&Finding| one.severity == wanted)
        };
        let bad = [Severity::Error, Severity::Warning, Severity::Advice];
        let shown = bad.into_iter().chain(all.then_some(Severity::Fine));
        for finding in shown.flat_map(of) {
            let _ = write!(text, "\n{}", finding.text(finding.check));
        }
        for (checks, finding) in self.not_checked() {
            let _ = write!(text, "\n{}", finding.text(&checks));
        }
        let counted = [
            ("errors", Severity::Error),
            ("warnings", Severity::Warning),
            ("not checked", Severity::NotChecked),
            ("advice", Severity::Advice),
        ];
        let counts = counted.map(|(name, severity)| format!("{name}: {}", of(severity).count()));
        let _ = writeln!(text, "\n{}", counts.join(", "));
        let mut fine: Vec<_> = of(Severity::Fine).map(|one| one.check).collect();
        fine.dedup();
        if !all && !fine.is_empty() {
            let _ = writeln!(text, "fine (--all shows more): {}", fine.join(", "));
        }
        let mut findings = self.findings.iter();
        if findings.any(Finding::changes_the_running_server) {
            text.push_str(
                "CONFIG SET and ACL SETUSER last until a restart. CONFIG REWRITE (users: ACL SAVE, where there \
                 is an aclfile) or the redis.conf lines keep them.\n",
            );
        }
        text
    }

    /// One finding for each reason, with the names of all checks that could not be made for this reason.
    fn not_checked(&self) -> Vec<(String, &Finding)> {
        let mut reasons = Vec::<(String, &Finding)>::new();
        let unseen = self.findings.iter();
        for finding in unseen.filter(|one| one.severity == Severity::NotChecked) {
            let same = reasons.iter_mut().find(|(_, known)| {
                (&known.seen, &known.fix, &known.servers)
                    == (&finding.seen, &finding.fix, &finding.servers)
            });
            match same {
                Some((checks, _)) => *checks = format!("{checks}, {}", finding.check),
                None => reasons.push((finding.check.to_owned(), finding)),
            }
        }
        reasons
    }
}

impl Finding {
    fn text(&self, checks: &str) -> String {
        let (label, first) = match self.severity {
            Severity::Error => ("ERROR", "fix"),
            Severity::Warning => ("WARNING", "fix"),
            Severity::NotChecked => ("NOT CHECKED", "allow"),
            Severity::Advice => ("ADVICE", "or"),
            Severity::Fine => ("ok", "or"),
        };
        let servers: Vec<_> = self.servers.iter().map(|server| plain(server)).collect();
        let mut text = format!("{label}: {checks} on {}\n", servers.join(", "));
        let _ = writeln!(text, "  seen  {}", plain(&self.seen));
        if !matches!(self.severity, Severity::NotChecked | Severity::Fine) {
            let rule = match self.source.split_once('#') {
                Some((page, part)) => format!("{page}: {}", part.replace('-', " ")),
                None => self.source.to_owned(),
            };
            let _ = writeln!(text, "  why   {} ({rule})", self.why);
        }
        let labels = [first].into_iter().chain(iter::repeat(""));
        for (fix, label) in self.fix.iter().zip(labels) {
            let line = match fix {
                Fix::Run(line) => format!("redis-cli> {line}"),
                Fix::Conf(line) => format!("redis.conf: {line}"),
                Fix::Shell(line) => format!("$ {line}"),
                Fix::Do(line) => line.clone(),
            };
            let _ = writeln!(text, "  {label:<5} {}", plain(&line));
        }
        text
    }

    fn changes_the_running_server(&self) -> bool {
        let changes = |fix: &Fix| matches!(fix, Fix::Run(line) if line.starts_with("CONFIG SET") || line.starts_with("ACL SETUSER"));
        !matches!(self.severity, Severity::NotChecked | Severity::Fine)
            && self.fix.iter().any(changes)
    }
}

/// Escapes text from a server for a terminal.
fn plain(text: &str) -> String {
    words::name(text.as_bytes())
}
