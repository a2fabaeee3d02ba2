//! The checks: facts in, findings out. `docs/doctor.md` has a row for each.

mod checks;
mod clocks;
mod cluster;
mod connections;
mod failover;
mod files;
mod loaded;
mod memory;
mod persistence;
mod programs;
mod replication;
mod rights;
mod settings;
mod stalls;

#[cfg(test)]
mod checks_tests;
#[cfg(test)]
mod judge_tests;

use crate::facts::Facts;
use crate::finding::{Finding, Judged, Verdict};
use checks::{CHECKS, Check, Judge};

/// Makes all checks. The same finding on several servers is told once.
pub(crate) fn judge(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for check in CHECKS {
        for node in &facts.nodes {
            let judged = check.judge.of(facts, node);
            add(&mut findings, check, &node.address, judged);
        }
        if let Judge::Watching(judge) = check.judge {
            for watched in &facts.watched {
                add(&mut findings, check, &watched.sentinel, judge(watched));
            }
        }
        if let Judge::Unreached(judge) = check.judge {
            for (address, why) in &facts.unreached {
                add(&mut findings, check, address, judge(why));
            }
        }
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn add(findings: &mut Vec<Finding>, check: &'static Check, server: &str, judged: Judged) {
    for verdict in judged.unwrap_or_else(|unseen| vec![Verdict::unseen(unseen)]) {
        let same = findings.iter_mut().find(|known| {
            known.check == check.name
                && known.severity == verdict.severity
                && known.seen == verdict.seen
                && known.fix == verdict.fix
        });
        match same {
            Some(known) => known.servers.push(server.to_owned()),
            None => findings.push(Finding {
                check: check.name,
                severity: verdict.severity,
                servers: vec![server.to_owned()],
                seen: verdict.seen,
                why: check.why,
                fix: verdict.fix,
                source: check.source,
            }),
        }
    }
}
