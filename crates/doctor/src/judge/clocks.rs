//! Clocks that differ.

use crate::facts::Node;
use crate::finding::{Fix, Judged, error, ok, shell, warning};

/// A third of the shortest lease in a session: by so much a lease may be shorter than its owner expects.
const MOST_BETWEEN_SERVERS: i64 = 333;
/// The shortest lease in a session.
const MOST_FROM_HERE: i64 = 1000;

/// A replica that takes over judges leases by its own clock, and gives tokens by it.
pub(super) fn replica(node: &Node, primary: &Node) -> Judged {
    let (own, theirs) = (node.clock.clone()?, primary.clock.clone()?);
    let ahead = own.ahead_ms - theirs.ahead_ms;
    let inexact = own.inexact_ms + theirs.inexact_ms;
    let told = told(ahead);
    let seen = format!("its clock is {told} its primary's (measured to {inexact} ms)");
    let lead = node.number("lock.max-token-lead-ms").ok().flatten();
    if -ahead - inexact > lead.unwrap_or(5000) {
        return error(
            format!("{seen}: after a failover tokens may fall"),
            in_step(),
        );
    }
    if ahead.abs() - inexact > MOST_BETWEEN_SERVERS {
        let seen =
            format!("{seen}: after a failover leases end too early or too late by that much");
        return warning(seen, in_step());
    }
    ok(seen)
}

pub(super) fn here(node: &Node) -> Judged {
    let own = node.clock.clone()?;
    let told = told(own.ahead_ms);
    let inexact = own.inexact_ms;
    let seen = format!("its clock is {told} this machine's (measured to {inexact} ms)");
    if own.ahead_ms.abs() - inexact > MOST_FROM_HERE {
        return warning(seen, in_step());
    }
    ok(seen)
}

fn told(ahead: i64) -> String {
    match ahead {
        0 => "at".to_owned(),
        1.. => format!("{ahead} ms ahead of"),
        _ => format!("{} ms behind", -ahead),
    }
}

fn in_step() -> Vec<Fix> {
    shell(["timedatectl set-ntp true", "chronyc tracking"])
}
