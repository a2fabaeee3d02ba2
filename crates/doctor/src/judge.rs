//! The checks: facts in, findings out. `docs/doctor.md` has a row for each.

mod checks;
mod failover;
mod room;
mod server;
mod settings;
mod users;

#[cfg(test)]
mod checks_tests;
#[cfg(test)]
mod judge_tests;

use crate::facts::Facts;
use crate::finding::{Finding, Judged, Severity, Unseen};
use checks::{CHECKS, Check, Judge};

/// Makes all checks. The same finding on several servers is told once.
pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in CHECKS {
        let mut add = |server: &str, judged| add(&mut findings, check, server, judged);
        let nodes = facts.nodes.iter();
        match check.judge {
            Judge::Server(judge) => nodes.for_each(|node| add(&node.address, judge(node))),
            Judge::Setting(name, applies) => nodes
                .filter(|node| applies(node))
                .for_each(|node| add(&node.address, settings::value(node, name))),
            Judge::Among(judge) => nodes.for_each(|node| add(&node.address, judge(facts, node))),
            Judge::Watching(judge) => {
                let watched = facts.watched.iter();
                watched.for_each(|watched| add(&watched.sentinel, judge(watched)));
            }
            Judge::Unreached(judge) => {
                let unreached = facts.unreached.iter();
                unreached.for_each(|(address, why)| add(address, judge(why)));
            }
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn add(findings: &mut Vec<Finding>, check: &Check, server: &str, judged: Judged) {
    let found = match judged {
        Err(Unseen::Absent) => Ok(Vec::new()),
        Err(Unseen::Refused(why, fix)) => Severity::NotChecked.says(why, fix),
        found => found,
    };
    for found in found.into_iter().flatten() {
        let same = findings.iter_mut().find(|known| {
            known.check == check.name
                && known.severity == found.severity
                && known.seen == found.seen
                && known.fix == found.fix
        });
        match same {
            Some(known) => known.servers.push(server.to_owned()),
            None => findings.push(Finding {
                check: check.name,
                servers: vec![server.to_owned()],
                why: check.why,
                source: check.source,
                ..found
            }),
        }
    }
}
