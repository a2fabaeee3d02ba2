//! Values of settings, and stalls of the server, during which it grants and renews nothing.

use crate::facts::{Facts, Node};
use crate::finding::Severity::{Advice, Fine, Warning};
use crate::finding::{Fix, Judged, Seen, Severity, act, first, known, ok, or_ok, run, set};
use Bad::{Above, Below, Is};

/// The shortest lease in a session. A stall of this length can end it.
const LONGEST_STALL: u64 = 1000;

/// The values that a setting should not have.
enum Bad {
    Is(&'static str),
    Below(i64),
    Above(i64),
}

impl Bad {
    fn holds(&self, value: &str) -> bool {
        let number = value.parse::<i64>();
        match self {
            Is(bad) => value == *bad,
            Below(least) => number.is_ok_and(|number| number < *least),
            Above(most) => number.is_ok_and(|number| number > *most),
        }
    }
}

/// The setting, the severity, the bad values, a better value, and the effect of a bad value.
type Rule = (&'static str, Severity, Bad, &'static str, &'static str);

#[rustfmt::skip]
const RULES: [Rule; 20] = [
    ("appendfsync", Fine, Is("everysec"), "always", "a crash of the machine loses about a second, or up to two"),
    ("appendfsync", Warning, Is("no"), "everysec", "a crash of the machine loses what the system had not written"),
    ("timeout", Fine, Above(0), "0", "closes idle connections, including that of a session whose program does not poll; \
        waiting calls and POLLs are not idle"),
    ("tcp-keepalive", Warning, Is("0"), "10", "a vanished host keeps its place in the queue forever"),
    // Two minutes.
    ("tcp-keepalive", Advice, Above(60), "10", "a vanished host is noticed after twice as many seconds; \
        a new value applies to new connections only"),
    ("replica-read-only", Warning, Is("no"), "yes", "DEL and similar commands change locks here, but not on the primary"),
    ("cluster-require-full-coverage", Advice, Is("yes"), "no",
        "when one primary is down, no lock of the cluster is available"),
    ("cluster-allow-reads-when-down", Warning, Is("yes"), "no", "an isolated node answers with outdated states of locks"),
    ("slowlog-log-slower-than", Warning, Below(0), "10000", "commands that stall the server are not logged"),
    ("slowlog-log-slower-than", Warning, Above(1_000_000), "10000", "commands that stall the server are not logged"),
    ("latency-monitor-threshold", Fine, Is("0"), "100",
        "the server does not record stalls caused by the disk or a fork"),
    ("lock.max-waiters", Warning, Is("0"), "10000", "each call with BLOCK or QUEUE fails with MAXWAITERS"),
    ("lock.max-waiters-total", Warning, Is("0"), "10000", "each call with BLOCK fails with MAXWAITERS"),
    ("lock.max-queued", Warning, Is("0"), "1000000", "each call with QUEUE fails with MAXWAITERS"),
    ("lock.max-sessions", Warning, Is("0"), "10000", "LOCK.SESSION OPEN fails with MAXSESSIONS"),
    ("lock.deadlock-detection", Warning, Is("no"), "yes", "tasks in a deadlock cycle wait until a timeout"),
    ("lock.max-holders", Warning, Is("1"), "10000", "no lock can be shared, not even by readers"),
    ("lock.max-token-lead-ms", Warning, Is("0"), "5000",
        "a lock over several servers fails (AHEAD) as soon as a clock is behind"),
    // The shortest lease in a session.
    ("lock.default-lease-ms", Warning, Below(1000), "30000",
        "a short pause of the owner loses the lock, and sessions refuse such a lease"),
    // By default a server needs this long to detect that a host has vanished.
    ("lock.default-lease-ms", Warning, Above(600_000), "30000", "others wait that long when an owner dies"),
];

/// Judges a setting of a server by the rules.
pub(super) fn value(node: &Node, name: &str) -> Judged {
    let value = node.setting(name)?;
    let is_found = |rule: &&Rule| rule.0 == name && rule.2.holds(value);
    match RULES.iter().find(is_found) {
        None => ok(format!("{name} {value}")),
        Some((_, severity, _, better, does)) => {
            severity.says(format!("{name} {value}: {does}"), set(name, better))
        }
    }
}

/// Finds settings of the module whose values are mistakes, although the server accepts them.
pub(super) fn of_module(node: &Node) -> Judged {
    node.module()?;
    let mut found = Vec::new();
    for (name, _) in node.settings_of_module()? {
        found.extend(value(node, name)?);
    }
    found.retain(|finding| finding.severity != Fine);
    let name = "lock.max-lease-ms";
    let lease = known(node.number("lock.default-lease-ms"))?.unwrap_or(0);
    let most = known(node.number(name))?.unwrap_or(lease);
    if most < lease {
        let seen =
            format!("lock.default-lease-ms {lease} is above {name} {most}, which applies instead");
        found.extend(Warning.says(seen, set(name, 315_360_000_000_i64))?);
    }
    or_ok(found, "the lock.* settings are fine")
}

/// Compares the settings of a replica with its primary. `CONFIG SET` is not replicated, but a replica that takes over
/// needs the same settings.
pub(super) fn same(facts: &Facts, node: &Node) -> Judged {
    let mut found = Vec::new();
    for (name, wanted) in facts.primary_of(node)?.settings_of_module()? {
        let value = known(node.setting(name))?.unwrap_or(wanted);
        if value != wanted {
            let seen = format!("{name} {value}, its primary has {wanted}");
            found.extend(Warning.says(seen, set(name, wanted))?);
        }
    }
    or_ok(found, "the lock.* settings are those of its primary")
}

/// Reports the stalls that were as long as a lease. If there are none, checks the setting that makes stalls visible.
fn stalls(node: &Node, seen: &Seen<Vec<(String, u64)>>, setting: &str, fix: Vec<Fix>) -> Judged {
    let seen = seen.as_ref().map_err(Clone::clone)?.iter();
    let long = seen.filter(|(_, ms)| *ms >= LONGEST_STALL);
    let long: Vec<_> = long.map(|(name, ms)| format!("{name} {ms} ms")).collect();
    if long.is_empty() {
        return value(node, setting);
    }
    Warning.says(format!("stalls: {}", long.join(", ")), fix)
}

pub(super) fn slow_commands(node: &Node) -> Judged {
    let elsewhere = act("run such commands on a replica, or in smaller steps");
    let fix = [run("SLOWLOG GET 128"), elsewhere, run("SLOWLOG RESET")];
    stalls(node, &node.slow, "slowlog-log-slower-than", fix.concat())
}

pub(super) fn latency(node: &Node) -> Judged {
    let fix = [run("LATENCY DOCTOR"), run("LATENCY RESET")].concat();
    stalls(node, &node.spikes, "latency-monitor-threshold", fix)
}

pub(super) fn scripts(node: &Node) -> Judged {
    let name = "busy-reply-threshold";
    let threshold = node.number(name)?;
    let lease = known(node.number("lock.default-lease-ms"))?.unwrap_or(30_000);
    let never = "a script that does not end can never be killed";
    let late = format!("a script can be killed only after leases of {lease} ms have expired");
    let cases = [
        (threshold <= 0, Warning, never, set(name, 5000)),
        (threshold >= lease, Warning, late.as_str(), set(name, 5000)),
    ];
    first(format!("{name} {threshold}"), cases)
}
