//! Stalls of the server: meanwhile it grants and renews nothing.

use crate::facts::Node;
use crate::finding::{Judged, act, ok, ok_or, run, set, warning};

/// The shortest lease in a session: a stall of that length ends it.
const LONGEST_STALL: u64 = 1000;

/// The stalls that took as long as a lease, as text.
fn stalls(seen: &[(String, u64)], took: &str) -> Option<String> {
    let long = seen.iter().filter(|(_, ms)| *ms >= LONGEST_STALL);
    let long: Vec<_> = long
        .map(|(name, ms)| format!("{name}{took} {ms} ms"))
        .collect();
    (!long.is_empty()).then(|| format!("stalls: {}", long.join(", ")))
}

pub(super) fn slow_commands(node: &Node) -> Judged {
    let slow = node.slow.as_ref().map_err(Clone::clone)?;
    let name = "slowlog-log-slower-than";
    let logged = node.number(name)?.unwrap_or(10_000);
    if !(0..=1_000_000).contains(&logged) {
        let seen = format!("{name} {logged}: commands that stall the server are not logged");
        return warning(seen, set(name, 10_000));
    }
    let Some(seen) = stalls(slow, " took") else {
        return ok("no command in the slow log took a second");
    };
    let elsewhere = act("run such commands on a replica, or in smaller steps");
    let fix = [run(["SLOWLOG GET 128"]), elsewhere, run(["SLOWLOG RESET"])];
    warning(seen, fix.concat())
}

pub(super) fn latency(node: &Node) -> Judged {
    let spikes = node.spikes.as_ref().map_err(Clone::clone)?;
    if let Some(seen) = stalls(spikes, "") {
        return warning(seen, run(["LATENCY DOCTOR", "LATENCY RESET"]));
    }
    let name = "latency-monitor-threshold";
    if node.number(name)?.unwrap_or(0) != 0 {
        return ok("no stall of a second was recorded");
    }
    let seen = format!("{name} 0: the server does not record stalls caused by the disk or a fork");
    ok_or(seen, set(name, 100))
}

pub(super) fn scripts(node: &Node) -> Judged {
    let name = "busy-reply-threshold";
    let Some(threshold) = node.number(name)? else {
        return Ok(vec![]);
    };
    let lease = node.number("lock.default-lease-ms")?.unwrap_or(30_000);
    let seen = format!("{name} {threshold}");
    if (1..lease).contains(&threshold) {
        return ok(seen);
    }
    let killed = if threshold <= 0 {
        "never be killed".to_owned()
    } else {
        format!("be killed only after leases of {lease} ms have expired")
    };
    let seen = format!("{seen}: a script that does not end can {killed}");
    warning(seen, set(name, 5000))
}
