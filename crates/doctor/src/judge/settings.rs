//! The module's own settings.

use crate::facts::Node;
use crate::finding::{Fix, Judged, act, advice, error, or_ok, set, warning};

/// The shortest lease in a session.
const SHORTEST_LEASE: i64 = 1000;
/// By default a server takes so long to find out that a host has vanished.
const LONGEST_LEASE: i64 = 600_000;

/// The range of `lock.max-queued` ends here.
const MOST_QUEUED: i64 = 100_000_000;
const MOST_WAITERS: i64 = 1_000_000;

/// Settings that should not have a value: the check, the setting, that value, another value, and what that value does.
#[rustfmt::skip]
const NEVER: [(&str, &str, &str, &str, &str); 10] = [
    ("read-only", "replica-read-only", "no", "yes", "DEL and similar commands change locks here, but not on the primary"),
    ("cluster-coverage", "cluster-require-full-coverage", "yes", "no",
        "when one primary is down, no lock of the cluster is available"),
    ("cluster-reads", "cluster-allow-reads-when-down", "yes", "no",
        "an isolated node answers with outdated states of locks"),
    ("settings", "lock.max-waiters", "0", "10000", "each call with BLOCK or QUEUE fails with MAXWAITERS"),
    ("settings", "lock.max-waiters-total", "0", "10000", "each call with BLOCK fails with MAXWAITERS"),
    ("settings", "lock.max-queued", "0", "1000000", "each call with QUEUE fails with MAXWAITERS"),
    ("settings", "lock.max-sessions", "0", "10000", "LOCK.SESSION OPEN fails with MAXSESSIONS"),
    ("settings", "lock.deadlock-detection", "no", "yes", "tasks in a deadlock cycle wait until a timeout"),
    ("settings", "lock.max-holders", "1", "10000", "no lock can be shared, not even by readers"),
    ("settings", "lock.max-token-lead-ms", "0", "5000",
        "a lock over several servers fails (AHEAD) as soon as a clock is behind"),
];

/// The settings of a check that have the value that they should not have.
fn unwanted(node: &Node, check: &str, verdict: fn(String, Vec<Fix>) -> Judged) -> Judged {
    let mut found = Vec::new();
    for (own, name, value, better, does) in NEVER {
        if own == check && node.setting(name)? == Some(value) {
            let seen = format!("{name} {value}: {does}");
            found.extend(verdict(seen, set(name, better))?);
        }
    }
    Ok(found)
}

pub(super) fn read_only(node: &Node) -> Judged {
    let found = unwanted(node, "read-only", warning)?;
    or_ok(found, "replica-read-only yes")
}

pub(super) fn coverage(node: &Node) -> Judged {
    let found = unwanted(node, "cluster-coverage", advice)?;
    or_ok(
        found,
        "if a part is down, locks on the other nodes still work",
    )
}

pub(super) fn reads(node: &Node) -> Judged {
    let found = unwanted(node, "cluster-reads", warning)?;
    or_ok(found, "an isolated node does not answer about locks")
}

/// The server accepts any value within a setting's range; these values are mistakes.
pub(super) fn values(node: &Node) -> Judged {
    let mut found = unwanted(node, "settings", warning)?;
    let name = "lock.default-lease-ms";
    if let Some(lease) = node.number(name)? {
        let seen = format!("{name} {lease}");
        if lease < SHORTEST_LEASE {
            let seen = format!(
                "{seen}: a short pause of the owner loses the lock, and sessions refuse such a lease"
            );
            found.extend(warning(seen, set(name, 30_000))?);
        } else if lease > LONGEST_LEASE {
            let seen = format!("{seen}: others wait that long when an owner dies");
            found.extend(warning(seen, set(name, 30_000))?);
        }
        let most = node.number("lock.max-lease-ms")?;
        if let Some(most) = most.filter(|most| *most < lease) {
            let seen = format!("{seen} is above lock.max-lease-ms {most}, which applies instead");
            let longest = set("lock.max-lease-ms", 315_360_000_000_i64);
            found.extend(warning(seen, longest)?);
        }
    }
    or_ok(found, "the lock.* settings are fine")
}

/// How many more calls may queue, on the server and for the lock with the longest queue.
pub(super) fn queued(node: &Node) -> Judged {
    let (mut found, mut fine) = (Vec::new(), Vec::new());
    let (queued, waiting) = ("queued calls", "calls wait for one lock");
    for (name, highest, field, what) in [
        ("lock.max-queued", MOST_QUEUED, "lock_queued", queued),
        (
            "lock.max-waiters",
            MOST_WAITERS,
            "lock_longest_queue",
            waiting,
        ),
    ] {
        let Some(most) = node.number(name)?.filter(|most| *most > 0) else {
            continue;
        };
        let now = node.count(field)?;
        let seen = format!("{now} {what}, of {name} {most}");
        let look = act(
            "check whether the holder of the lock with the longest queue is alive: redis-lock-top locks",
        );
        let more = [look, set(name, most.saturating_mul(2).min(highest))].concat();
        if now >= most {
            let seen = format!("{seen}: further ones fail with MAXWAITERS");
            found.extend(error(seen, more)?);
        } else if now > most - most / 10 {
            found.extend(warning(seen, more)?);
        } else {
            fine.push(seen);
        }
    }
    if fine.is_empty() {
        return Ok(found);
    }
    or_ok(found, fine.join("; "))
}

/// `CONFIG SET` is not replicated: who takes over must have what its primary has.
pub(super) fn same(node: &Node, primary: &Node) -> Judged {
    let own = node.config.as_ref().map_err(Clone::clone)?;
    let theirs = primary.config.as_ref().map_err(Clone::clone)?;
    let mut found = Vec::new();
    for (name, wanted) in theirs.iter().filter(|(name, _)| name.starts_with("lock.")) {
        if let Some(value) = own.get(name).filter(|value| *value != wanted) {
            let seen = format!("{name} {value}, its primary has {wanted}");
            found.extend(warning(seen, set(name, wanted))?);
        }
    }
    or_ok(found, "the lock.* settings are those of its primary")
}
