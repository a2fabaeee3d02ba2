//! Room for locks and for those who wait.

use super::connections::may_wait;
use crate::facts::Node;
use crate::finding::{Judged, Seen, error, ok, run, set, warning};

/// The cost of a waiting call for the server, in bytes (docs/operations/memory.md).
pub(super) const WAITER: i64 = 36_000;
const MEGABYTE: i64 = 1 << 20;

pub(super) fn eviction(node: &Node) -> Judged {
    let Some(policy) = node.told("maxmemory_policy")? else {
        return Ok(vec![]);
    };
    if policy == "noeviction" {
        return ok("maxmemory-policy noeviction");
    }
    let fix = set("maxmemory-policy", "noeviction");
    let seen = format!("maxmemory-policy {policy}: locks have a TTL, and can be evicted");
    if node.count("maxmemory")? != 0 {
        return error(seen, fix);
    }
    let seen = format!("{seen} as soon as maxmemory is set (it is 0 now)");
    warning(seen, fix)
}

pub(super) fn evicted(node: &Node) -> Judged {
    let keys = node.count("evicted_keys")?;
    if keys == 0 {
        return ok("no key was evicted");
    }
    let seen = format!(
        "{keys} keys were evicted since the start (or the last CONFIG RESETSTAT), perhaps held locks"
    );
    let policy = node.told("maxmemory_policy")?.unwrap_or_default();
    let mut fix = run(["CONFIG RESETSTAT"]);
    if policy != "noeviction" {
        fix.splice(0..0, set("maxmemory-policy", "noeviction"));
    }
    warning(seen, fix)
}

pub(super) fn memory(node: &Node) -> Judged {
    let (used, most) = (used(node)?, node.count("maxmemory")?);
    if most == 0 {
        return ok("maxmemory 0: no limit");
    }
    let seen = format!("{} used of maxmemory {}", megabytes(used), megabytes(most));
    let more = set("maxmemory", half_more(used.max(most)));
    if used >= most {
        let seen = format!("{seen}: LOCK.ACQUIRE fails with OOM, re-entry included");
        return error(seen, more);
    }
    if used > most - most / 10 {
        return warning(seen, more);
    }
    ok(seen)
}

pub(super) fn waiters(node: &Node) -> Judged {
    let Some(total) = node.number("lock.max-waiters-total")? else {
        return Ok(vec![]);
    };
    let (used, most) = (used(node)?, node.count("maxmemory")?);
    let (limit, name) = match most {
        0 => (node.count("total_system_memory")?, "the machine's memory"),
        most => (most, "maxmemory"),
    };
    if limit == 0 {
        return ok("the server does not report how much memory there is");
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
        return ok(seen);
    }
    // Half of what is left is for the locks, and all else.
    let fitting = waiting + left / 2 / WAITER;
    let fewer = set("lock.max-waiters-total", fitting);
    let more = set("maxmemory", half_more(used + need));
    let fix = match most {
        0 => fewer,
        _ if fitting < 100 => [more, fewer].concat(),
        _ => [fewer, more].concat(),
    };
    warning(seen, fix)
}

/// The memory that counts towards `maxmemory`.
fn used(node: &Node) -> Seen<i64> {
    Ok(node.count("used_memory")? - node.count("mem_not_counted_for_evict")?)
}

/// So many bytes and half of them, in whole megabytes.
fn half_more(bytes: i64) -> i64 {
    (bytes / MEGABYTE + 1) * MEGABYTE * 3 / 2
}

fn megabytes(bytes: i64) -> String {
    let tenths = bytes * 10 / MEGABYTE;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}
