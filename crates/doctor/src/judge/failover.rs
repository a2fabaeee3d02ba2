//! What happens to grants and tokens when another server takes over.

use super::Facts;
use crate::facts::{Node, Watched, set};
use crate::finding::{Fix, Judged, Verdict};

/// Writes are paused in a planned switch, and Sentinels hear nothing then (docs/operations/switching.md).
const SHORTEST_DOWN_AFTER: i64 = 5000;

/// How long a server is silent until another takes over, where that is known: in a cluster, or by a Sentinel.
fn silence(facts: &Facts, node: &Node) -> Result<Option<(i64, String)>, crate::finding::Unseen> {
    if node.in_cluster() {
        let timeout = node.number("cluster-node-timeout")?;
        return Ok(timeout.map(|ms| (ms, format!("cluster-node-timeout {ms}"))));
    }
    let watched = facts.watched.iter().filter_map(|watched| {
        let ms = down_after(watched)?;
        Some((
            ms,
            format!("down-after-milliseconds {ms} of {}", watched.name),
        ))
    });
    Ok(watched.min())
}

fn down_after(watched: &Watched) -> Option<i64> {
    watched.fields.get("down-after-milliseconds")?.parse().ok()
}

pub(super) fn token_lead(facts: &Facts, node: &Node) -> Judged {
    let Some((silence, named)) = silence(facts, node)? else {
        return Ok(vec![]);
    };
    let Some(lead) = node.number("lock.max-token-lead-ms")? else {
        return Ok(vec![]);
    };
    let seen = format!("lock.max-token-lead-ms {lead}, {named}");
    if lead < silence {
        return Verdict::ok(seen).alone();
    }
    let seen = format!("{seen}: after a failover tokens may be below one that was raised before");
    let lower = set("lock.max-token-lead-ms", silence / 2);
    Verdict::warning(seen).fix(lower).alone()
}

pub(super) fn lease(facts: &Facts, node: &Node) -> Judged {
    let Some((silence, named)) = silence(facts, node)? else {
        return Ok(vec![]);
    };
    let Some(lease) = node.number("lock.default-lease-ms")? else {
        return Ok(vec![]);
    };
    let seen = format!("lock.default-lease-ms {lease}, {named}");
    if lease > silence {
        return Verdict::ok(seen).alone();
    }
    let seen = format!(
        "{seen}: such a lease ends before another server takes over, and its owner loses it"
    );
    let longer = set("lock.default-lease-ms", silence * 2);
    Verdict::warning(seen).fix(longer).alone()
}

pub(super) fn sentinel(_: &Facts, watched: &Watched) -> Judged {
    let name = &watched.name;
    let mut found = Vec::new();
    if let Some(problem) = watched.quorum.as_ref().map_err(Clone::clone)? {
        let start = Fix::Do("start the Sentinels that are down, or repair the network".to_owned());
        let seen = format!("{name}: no failover is possible: {problem}");
        found.push(Verdict::error(seen).fix([start]));
    }
    let flags = watched.fields.get("flags").map_or("", String::as_str);
    if flags.contains("down") {
        let start = Fix::Do("start the primary, or wait for the failover".to_owned());
        let seen = format!("{name}: the Sentinel considers the primary dead ({flags})");
        found.push(Verdict::error(seen).fix([start]));
    }
    if let Some(ms) = down_after(watched).filter(|ms| *ms < SHORTEST_DOWN_AFTER) {
        let seen = format!(
            "{name}: down-after-milliseconds {ms}: in a planned switch the Sentinels may consider the primary dead"
        );
        let set = format!("SENTINEL SET {name} down-after-milliseconds {SHORTEST_DOWN_AFTER}");
        found.push(Verdict::warning(seen).fix([Fix::Run(set)]));
    }
    if found.is_empty() {
        return Verdict::ok(format!("{name}: a failover is possible")).alone();
    }
    Ok(found)
}
