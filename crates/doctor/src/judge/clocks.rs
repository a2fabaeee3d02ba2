//! Clocks that differ.

use super::Facts;
use crate::facts::{Clock, Node};
use crate::finding::{Fix, Judged, Verdict};

/// A third of the shortest lease in a session: by so much a lease may be shorter than its owner expects.
const MOST_BETWEEN_SERVERS: i64 = 333;
/// The shortest lease in a session.
const MOST_FROM_HERE: i64 = 1000;

/// A replica that takes over judges leases by its own clock, and gives tokens by it.
pub(super) fn replica(facts: &Facts, node: &Node) -> Judged {
    let Some(primary) = facts.primary_of(node).filter(|_| node.is_replica()) else {
        return Ok(vec![]);
    };
    let (own, theirs) = (clock(node)?, clock(primary)?);
    let ahead = own.ahead_ms - theirs.ahead_ms;
    let inexact = own.inexact_ms + theirs.inexact_ms;
    let seen = format!(
        "its clock is {} its primary's (measured to {inexact} ms)",
        told(ahead)
    );
    let sure = ahead.abs() - inexact;
    let lead = node.number("lock.max-token-lead-ms").ok().flatten();
    if -ahead - inexact > lead.unwrap_or(5000) {
        let seen = format!("{seen}: after a failover tokens may fall");
        return Verdict::error(seen).fix(in_step()).alone();
    }
    if sure > MOST_BETWEEN_SERVERS {
        let seen =
            format!("{seen}: after a failover leases end too early or too late by that time");
        return Verdict::warning(seen).fix(in_step()).alone();
    }
    Verdict::ok(seen).alone()
}

pub(super) fn here(_: &Facts, node: &Node) -> Judged {
    let own = clock(node)?;
    let seen = format!(
        "its clock is {} this machine's (measured to {} ms)",
        told(own.ahead_ms),
        own.inexact_ms
    );
    if own.ahead_ms.abs() - own.inexact_ms > MOST_FROM_HERE {
        return Verdict::warning(seen).fix(in_step()).alone();
    }
    Verdict::ok(seen).alone()
}

fn clock(node: &Node) -> Result<Clock, crate::finding::Unseen> {
    node.clock.clone()
}

fn told(ahead: i64) -> String {
    match ahead {
        0 => "at".to_owned(),
        1.. => format!("{ahead} ms ahead of"),
        _ => format!("{} ms behind", -ahead),
    }
}

fn in_step() -> [Fix; 2] {
    let lines = ["timedatectl set-ntp true", "chronyc tracking"];
    lines.map(|line| Fix::Shell(line.to_owned()))
}
