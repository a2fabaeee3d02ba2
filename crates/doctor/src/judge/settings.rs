//! The module's own settings.

use super::Facts;
use crate::facts::{Node, set};
use crate::finding::{Judged, Verdict};

/// The shortest lease in a session.
const SHORTEST_LEASE: i64 = 1000;
/// By default a server takes so long to find out that a host has vanished.
const LONGEST_LEASE: i64 = 600_000;

/// The range of `lock.max-queued` ends here.
const MOST_QUEUED: i64 = 100_000_000;

/// Each of them is let be anywhere within its range; these values are what nobody should mean.
pub(super) fn values(_: &Facts, node: &Node) -> Judged {
    if node.module()?.is_none() {
        return Ok(vec![]);
    }
    let mut found = Vec::new();
    let mut warn = |seen: String, name: &str, value: &str| {
        found.push(Verdict::warning(seen).fix(set(name, value)));
    };
    for (name, seen, value) in [
        (
            "lock.max-waiters",
            "each call with BLOCK or QUEUE fails with MAXWAITERS",
            "10000",
        ),
        (
            "lock.max-waiters-total",
            "each call with BLOCK fails with MAXWAITERS",
            "10000",
        ),
        (
            "lock.max-queued",
            "each call with QUEUE fails with MAXWAITERS",
            "1000000",
        ),
        (
            "lock.max-sessions",
            "LOCK.SESSION OPEN fails with MAXSESSIONS",
            "10000",
        ),
    ] {
        if node.number(name)? == Some(0) {
            warn(format!("{name} 0: {seen}"), name, value);
        }
    }
    if let Some(lease) = node.number("lock.default-lease-ms")? {
        let name = "lock.default-lease-ms";
        if lease < SHORTEST_LEASE {
            let seen = format!(
                "{name} {lease}: a short pause of the owner is enough to lose the lock, and sessions refuse it"
            );
            warn(seen, name, "30000");
        }
        if lease > LONGEST_LEASE {
            let seen = format!("{name} {lease}: others wait that long when an owner dies");
            warn(seen, name, "30000");
        }
        if let Some(most) = node
            .number("lock.max-lease-ms")?
            .filter(|most| *most < lease)
        {
            let seen =
                format!("{name} {lease} is above lock.max-lease-ms {most}, which applies instead");
            warn(seen, "lock.max-lease-ms", "315360000000");
        }
    }
    if node.setting("lock.deadlock-detection")? == Some("no") {
        let seen = "lock.deadlock-detection no: tasks in a deadlock cycle wait until a timeout";
        warn(seen.to_owned(), "lock.deadlock-detection", "yes");
    }
    if node.number("lock.max-holders")? == Some(1) {
        let seen = "lock.max-holders 1: no lock can be shared, not even by readers";
        warn(seen.to_owned(), "lock.max-holders", "10000");
    }
    if node.number("lock.max-token-lead-ms")? == Some(0) {
        let seen = "lock.max-token-lead-ms 0: a lock over several servers fails (AHEAD) as soon as a clock is behind";
        warn(seen.to_owned(), "lock.max-token-lead-ms", "5000");
    }
    if found.is_empty() {
        return Verdict::ok("the lock.* settings are fine").alone();
    }
    Ok(found)
}

/// How many more calls may queue.
pub(super) fn queued(_: &Facts, node: &Node) -> Judged {
    let Some(most) = node.number("lock.max-queued")?.filter(|most| *most > 0) else {
        return Ok(vec![]);
    };
    let queued = node.count("lock_queued")?;
    let seen = format!("{queued} queued calls of lock.max-queued {most}");
    let more = set("lock.max-queued", most.saturating_mul(2).min(MOST_QUEUED));
    if queued >= most {
        let seen = format!("{seen}: a further call with QUEUE fails with MAXWAITERS");
        return Verdict::error(seen).fix(more).alone();
    }
    if queued > most - most / 10 {
        return Verdict::warning(seen).fix(more).alone();
    }
    Verdict::ok(seen).alone()
}

/// `CONFIG SET` is not replicated: who takes over must have what its primary has.
pub(super) fn same(facts: &Facts, node: &Node) -> Judged {
    let Some(primary) = facts.primary_of(node).filter(|_| node.is_replica()) else {
        return Ok(vec![]);
    };
    let own = node.config.as_ref().map_err(Clone::clone)?;
    let theirs = primary.config.as_ref().map_err(Clone::clone)?;
    let ours = theirs.iter().filter(|(name, _)| name.starts_with("lock."));
    let other = ours.filter_map(|(name, wanted)| {
        let value = own.get(name).filter(|value| *value != wanted)?;
        let seen = format!("{name} {value}, its primary has {wanted}");
        Some(Verdict::warning(seen).fix(set(name, wanted)))
    });
    let other: Vec<_> = other.collect();
    if other.is_empty() {
        return Verdict::ok("the lock.* settings are those of its primary").alone();
    }
    Ok(other)
}
