//! What holds up the server: while it does one thing, it grants and renews nothing.

use super::Facts;
use crate::facts::{Node, set};
use crate::finding::{Fix, Judged, Verdict};

/// The shortest lease in a session: a stall of that length ends it.
const LONGEST_STALL: u64 = 1000;

pub(super) fn slow_commands(_: &Facts, node: &Node) -> Judged {
    let slow = node.slow.as_ref().map_err(Clone::clone)?;
    let logged = node.number("slowlog-log-slower-than")?.unwrap_or(10_000);
    let threshold = i64::try_from(LONGEST_STALL * 1000).unwrap_or(i64::MAX);
    if !(0..=threshold).contains(&logged) {
        let seen = format!(
            "slowlog-log-slower-than {logged}: commands that stall the server are not logged"
        );
        let log = set("slowlog-log-slower-than", 10_000);
        return Verdict::warning(seen).fix(log).alone();
    }
    let stalls: Vec<_> = slow
        .iter()
        .filter(|(_, ms)| *ms >= LONGEST_STALL)
        .map(|(name, ms)| format!("{name} took {ms} ms"))
        .collect();
    if stalls.is_empty() {
        return Verdict::ok("no command in the slow log took a second").alone();
    }
    let look = Fix::Run("SLOWLOG GET 128".to_owned());
    let elsewhere = Fix::Do("run such commands on a replica, or in smaller steps".to_owned());
    let forget = Fix::Run("SLOWLOG RESET".to_owned());
    let seen = format!("stalls: {}", stalls.join(", "));
    Verdict::warning(seen)
        .fix([look, elsewhere, forget])
        .alone()
}

pub(super) fn latency(_: &Facts, node: &Node) -> Judged {
    let spikes = node.spikes.as_ref().map_err(Clone::clone)?;
    let stalls: Vec<_> = spikes
        .iter()
        .filter(|(_, ms)| *ms >= LONGEST_STALL)
        .map(|(event, ms)| format!("{event} {ms} ms"))
        .collect();
    if !stalls.is_empty() {
        let lines = ["LATENCY DOCTOR", "LATENCY RESET"].map(|line| Fix::Run(line.to_owned()));
        let seen = format!("stalls: {}", stalls.join(", "));
        return Verdict::warning(seen).fix(lines).alone();
    }
    if node.number("latency-monitor-threshold")?.unwrap_or(0) == 0 {
        let seen = "latency-monitor-threshold 0: the server records no stalls of disk and fork";
        let watch = set("latency-monitor-threshold", 100);
        return Verdict::ok(seen).fix(watch).alone();
    }
    Verdict::ok("no stall of a second was recorded").alone()
}

pub(super) fn scripts(_: &Facts, node: &Node) -> Judged {
    let Some(threshold) = node.number("busy-reply-threshold")? else {
        return Ok(vec![]);
    };
    let lease = node.number("lock.default-lease-ms")?.unwrap_or(30_000);
    let seen = format!("busy-reply-threshold {threshold}");
    let usual = set("busy-reply-threshold", 5000);
    if threshold <= 0 {
        let seen = format!("{seen}: a script that does not end can never be killed");
        return Verdict::warning(seen).fix(usual).alone();
    }
    if threshold >= lease {
        let seen = format!(
            "{seen}: a script that does not end can be killed only when leases of {lease} ms are over"
        );
        return Verdict::warning(seen).fix(usual).alone();
    }
    Verdict::ok(seen).alone()
}
