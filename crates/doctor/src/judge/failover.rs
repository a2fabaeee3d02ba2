//! Grants and tokens when another server takes over.

use crate::facts::{Facts, Node, Watched};
use crate::finding::{Judged, Seen, act, error, ok, or_ok, run, set, warning};

/// Writes are paused in a planned switch, and Sentinels get no answer then (docs/operations/switching.md).
const SHORTEST_DOWN_AFTER: i64 = 5000;

/// How long a server is silent until another takes over, where that is known: in a cluster, or by a Sentinel.
fn silence(facts: &Facts, node: &Node) -> Seen<Option<(i64, String)>> {
    if node.in_cluster() {
        let timeout = node.number("cluster-node-timeout")?;
        return Ok(timeout.map(|ms| (ms, format!("cluster-node-timeout {ms}"))));
    }
    let named = |watched: &Watched| {
        let ms = down_after(watched)?;
        let name = &watched.name;
        Some((ms, format!("down-after-milliseconds {ms} of {name}")))
    };
    Ok(facts.watched.iter().filter_map(named).min())
}

fn down_after(watched: &Watched) -> Option<i64> {
    watched.fields.get("down-after-milliseconds")?.parse().ok()
}

pub(super) fn token_lead(facts: &Facts, node: &Node) -> Judged {
    let name = "lock.max-token-lead-ms";
    let (Some((silence, named)), Some(lead)) = (silence(facts, node)?, node.number(name)?) else {
        return Ok(vec![]);
    };
    let seen = format!("{name} {lead}, {named}");
    if lead < silence {
        return ok(seen);
    }
    let seen = format!("{seen}: after a failover tokens may be below one that was raised before");
    warning(seen, set(name, silence / 2))
}

pub(super) fn lease(facts: &Facts, node: &Node) -> Judged {
    let name = "lock.default-lease-ms";
    let (Some((silence, named)), Some(lease)) = (silence(facts, node)?, node.number(name)?) else {
        return Ok(vec![]);
    };
    let seen = format!("{name} {lease}, {named}");
    if lease > silence {
        return ok(seen);
    }
    let seen = format!(
        "{seen}: such a lease expires before another server takes over, and its owner loses the lock"
    );
    warning(seen, set(name, silence * 2))
}

pub(super) fn sentinel(watched: &Watched) -> Judged {
    let name = &watched.name;
    let mut found = Vec::new();
    if let Some(problem) = watched.quorum.as_ref().map_err(Clone::clone)? {
        let start = act("start the Sentinels that are down, or repair the network");
        let seen = format!("{name}: no failover is possible: {problem}");
        found.extend(error(seen, start)?);
    }
    let flags = watched.fields.get("flags").map_or("", String::as_str);
    if flags.contains("down") {
        let start = act("start the primary, or wait for the failover");
        let seen = format!("{name}: the Sentinel considers the primary dead ({flags})");
        found.extend(error(seen, start)?);
    }
    if let Some(ms) = down_after(watched).filter(|ms| *ms < SHORTEST_DOWN_AFTER) {
        let seen = format!(
            "{name}: down-after-milliseconds {ms}: in a planned switch the Sentinels may consider the primary dead"
        );
        let set = format!("SENTINEL SET {name} down-after-milliseconds {SHORTEST_DOWN_AFTER}");
        found.extend(warning(seen, run([&set]))?);
    }
    or_ok(found, format!("{name}: a failover is possible"))
}
