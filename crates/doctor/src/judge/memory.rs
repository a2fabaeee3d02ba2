//! Room for locks and for those who wait.

use super::Facts;
use super::connections::may_wait;
use crate::facts::{Node, Seen, set};
use crate::finding::{Fix, Judged, Verdict};

/// What a call that waits costs the server, in bytes (docs/operations/memory.md).
pub(super) const WAITER: i64 = 36_000;
const MEGABYTE: i64 = 1 << 20;

pub(super) fn eviction(_: &Facts, node: &Node) -> Judged {
    let Some(policy) = node.told("maxmemory_policy")? else {
        return Ok(vec![]);
    };
    if policy == "noeviction" {
        return Verdict::ok("maxmemory-policy noeviction").alone();
    }
    let fix = set("maxmemory-policy", "noeviction");
    let seen = format!("maxmemory-policy {policy}: locks have a TTL, and can be evicted");
    if node.count("maxmemory")? == 0 {
        let seen = format!("{seen} as soon as maxmemory is set (it is 0 now)");
        return Verdict::warning(seen).fix(fix).alone();
    }
    Verdict::error(seen).fix(fix).alone()
}

pub(super) fn evicted(_: &Facts, node: &Node) -> Judged {
    let keys = node.count("evicted_keys")?;
    if keys == 0 {
        return Verdict::ok("no key was evicted").alone();
    }
    let seen = format!(
        "{keys} keys were evicted since the start (or the last CONFIG RESETSTAT), perhaps held locks"
    );
    let forget = Fix::Run("CONFIG RESETSTAT".to_owned());
    let policy = node.told("maxmemory_policy")?.unwrap_or_default();
    let first = (policy != "noeviction").then(|| set("maxmemory-policy", "noeviction"));
    let fix = first.into_iter().flatten().chain([forget]);
    Verdict::warning(seen).fix(fix).alone()
}

pub(super) fn memory(_: &Facts, node: &Node) -> Judged {
    let (used, most) = (used(node)?, node.count("maxmemory")?);
    if most == 0 {
        return Verdict::ok("maxmemory 0: no limit").alone();
    }
    let seen = format!("{} used of maxmemory {}", megabytes(used), megabytes(most));
    let more = set(
        "maxmemory",
        (used.max(most) / MEGABYTE + 1) * MEGABYTE * 3 / 2,
    );
    if used >= most {
        let seen = format!("{seen}: LOCK.ACQUIRE fails with OOM, re-entry included");
        return Verdict::error(seen).fix(more).alone();
    }
    if used > most - most / 10 {
        return Verdict::warning(seen).fix(more).alone();
    }
    Verdict::ok(seen).alone()
}

pub(super) fn waiters(_: &Facts, node: &Node) -> Judged {
    let Some(total) = node.number("lock.max-waiters-total")? else {
        return Ok(vec![]);
    };
    let (used, most) = (used(node)?, node.count("maxmemory")?);
    let (limit, name) = match most {
        0 => (node.count("total_system_memory")?, "the machine's memory"),
        most => (most, "maxmemory"),
    };
    if limit == 0 {
        return Verdict::ok("the server does not report how much memory there is").alone();
    }
    let waiting = node.count("lock_waiting")?;
    let need = (may_wait(node, total)? - waiting).max(0) * WAITER;
    let left = (limit - used).max(0);
    let seen = format!(
        "lock.max-waiters-total {total}: further waiters can take {}, {name} ({}) leaves {}",
        megabytes(need),
        megabytes(limit),
        megabytes(left)
    );
    if need <= left {
        return Verdict::ok(seen).alone();
    }
    // Half of what is left is for the locks, and all else.
    let fitting = waiting + left / 2 / WAITER;
    let fewer = set("lock.max-waiters-total", fitting);
    let more = set(
        "maxmemory",
        ((used + need) / MEGABYTE + 1) * MEGABYTE * 3 / 2,
    );
    let fix = match most {
        0 => fewer,
        _ if fitting < 100 => [more, fewer].concat(),
        _ => [fewer, more].concat(),
    };
    Verdict::warning(seen).fix(fix).alone()
}

/// What counts towards `maxmemory`.
fn used(node: &Node) -> Seen<i64> {
    Ok(node.count("used_memory")? - node.count("mem_not_counted_for_evict")?)
}

fn megabytes(bytes: i64) -> String {
    let tenths = bytes * 10 / MEGABYTE;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}
