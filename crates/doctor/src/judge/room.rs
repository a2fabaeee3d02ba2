//! Room for locks, for connections and for waiting calls.

use crate::facts::Node;
use crate::finding::Severity::{Error, Warning};
use crate::finding::{Fix, Judged, Seen, act, first, known, ok, only, run, set};

/// The memory of a waiting call on the server, in bytes (docs/operations/memory.md).
const WAITER: i64 = 36_000;
const MEGABYTE: i64 = 1 << 20;
/// The open files that the server reserves for itself.
const OWN_FILES: i64 = 32;
/// The period that a server's counters cover.
const SINCE: &str = "since the start (or the last CONFIG RESETSTAT)";

pub(super) fn eviction(node: &Node) -> Judged {
    let policy = node.told("maxmemory_policy")?;
    let evicts = policy != "noeviction";
    let is_limited = node.count("maxmemory")? != 0;
    let fix = set("maxmemory-policy", "noeviction");
    let can = "locks have a TTL, and can be evicted";
    let later = format!("{can} as soon as maxmemory is set (it is 0 now)");
    let cases = [
        (evicts && is_limited, Error, can, fix.clone()),
        (evicts, Warning, &later, fix),
    ];
    first(format!("maxmemory-policy {policy}"), cases)
}

pub(super) fn evicted(node: &Node) -> Judged {
    let keys = node.count("evicted_keys")?;
    let keep = match node.told("maxmemory_policy")? {
        "noeviction" => Vec::new(),
        _ => set("maxmemory-policy", "noeviction"),
    };
    let fix = [keep, run("CONFIG RESETSTAT")].concat();
    let seen = format!("{keys} keys were evicted {SINCE}");
    first(seen, [(keys > 0, Warning, "perhaps held locks", fix)])
}

pub(super) fn memory(node: &Node) -> Judged {
    let (used, most) = (used(node)?, node.count("maxmemory")?);
    if most == 0 {
        return ok("maxmemory 0: no limit");
    }
    let more = set("maxmemory", half_more(used.max(most)));
    let fails = "LOCK.ACQUIRE fails with OOM, re-entry included";
    let cases = [
        (used >= most, Error, fails, more.clone()),
        (is_nearly(used, most), Warning, "", more),
    ];
    let seen = format!("{} used of maxmemory {}", megabytes(used), megabytes(most));
    first(seen, cases)
}

pub(super) fn waiters_memory(node: &Node) -> Judged {
    let total = node.number("lock.max-waiters-total")?;
    let (used, most) = (used(node)?, node.count("maxmemory")?);
    let (limit, name) = match most {
        0 => (node.count("total_system_memory")?, "the machine's memory"),
        most => (most, "maxmemory"),
    };
    // Some servers do not report their total memory.
    only(limit > 0)?;
    let waiting = node.count("lock_waiting")?;
    let need = (may_wait(node, total)? - waiting).max(0) * WAITER;
    let left = (limit - used).max(0);
    let seen = format!(
        "lock.max-waiters-total {total}: further waiters can take {}, {name} ({}) leaves {}",
        megabytes(need),
        megabytes(limit),
        megabytes(left)
    );
    // Reserve half of what is left for the locks and everything else.
    let fitting = waiting + left / 2 / WAITER;
    let fewer = set("lock.max-waiters-total", fitting);
    let more = set("maxmemory", half_more(used + need));
    let fix = match most {
        0 => fewer,
        _ if fitting < 100 => [more, fewer].concat(),
        _ => [fewer, more].concat(),
    };
    first(seen, [(need > left, Warning, "", fix)])
}

/// The memory that counts towards `maxmemory`.
fn used(node: &Node) -> Seen<i64> {
    Ok(node.count("used_memory")? - node.count("mem_not_counted_for_evict")?)
}

/// One and a half times this many bytes, in whole megabytes.
fn half_more(bytes: i64) -> i64 {
    (bytes / MEGABYTE + 1) * MEGABYTE * 3 / 2
}

fn megabytes(bytes: i64) -> String {
    let tenths = bytes * 10 / MEGABYTE;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

/// Whether more than 90 % are used.
fn is_nearly(used: i64, most: i64) -> bool {
    used > most - most / 10
}

pub(super) fn clients(node: &Node) -> Judged {
    let most = node.count("maxclients")?;
    only(most > 0)?;
    let here = node.count("connected_clients")?;
    let refused = node.count("rejected_connections")?;
    let fix = more_clients(most, 2 * most);
    let were_refused = format!("{refused} were refused {SINCE}");
    let reset = [fix.clone(), run("CONFIG RESETSTAT")].concat();
    let cases = [
        (is_nearly(here, most), Error, "", fix),
        (refused > 0, Warning, were_refused.as_str(), reset),
    ];
    first(format!("{here} connections of maxclients {most}"), cases)
}

pub(super) fn waiters_connections(node: &Node) -> Judged {
    let total = node.number("lock.max-waiters-total")?;
    let most = node.count("maxclients")?;
    let may_wait = may_wait(node, total)?;
    let is_short = may_wait != total && is_lowered(most);
    let fewer = set("lock.max-waiters-total", may_wait);
    let more = more_clients(most, total * 4 / 3 + OWN_FILES);
    let lowered = "the limit of open files has lowered maxclients";
    let seen =
        format!("lock.max-waiters-total {total}, maxclients {most}, of which {may_wait} may wait");
    first(seen, [(is_short, Warning, lowered, [fewer, more].concat())])
}

/// How many calls may wait if `lock.max-waiters-total` is `total`. They use at most three quarters of the connections.
fn may_wait(node: &Node, total: i64) -> Seen<i64> {
    Ok(match node.count("maxclients")? {
        0 => total,
        most => total.min(most * 3 / 4),
    })
}

/// How to allow more connections. If the system has lowered the limit, it must allow more open files first.
fn more_clients(most: i64, wanted: i64) -> Vec<Fix> {
    let lines = set("maxclients", wanted);
    if !is_lowered(most) {
        return lines;
    }
    let files = wanted + OWN_FILES;
    let first = act(format!(
        "allow more open files and restart: LimitNOFILE={files} in the unit, or ulimit -n {files}"
    ));
    [first, lines].concat()
}

/// Whether the server has lowered `maxclients` at its start to what the limit of open files allows. Then it is a round
/// number, minus the files that the server reserves for itself.
fn is_lowered(most: i64) -> bool {
    let files = most + OWN_FILES;
    most < 10_000 && (files % 1024 == 0 || files.count_ones() == 1)
}

/// The limits of queued calls, on the server and for the lock with the longest queue. The last field is the highest
/// value of the setting.
#[rustfmt::skip]
const QUEUES: [(&str, &str, &str, i64); 2] = [
    ("lock.max-queued", "lock_queued", "queued calls", 100_000_000),
    ("lock.max-waiters", "lock_longest_queue", "calls wait for one lock", 1_000_000),
];

pub(super) fn queued(node: &Node) -> Judged {
    let mut found = Vec::new();
    for (name, field, what, highest) in QUEUES {
        let now = node.count(field)?;
        let most = known(node.number(name))?.unwrap_or(0);
        if most == 0 {
            // Another check reports that no call can queue.
            continue;
        }
        let look = act(
            "check whether the holder of the lock with the longest queue is alive: redis-lock-top locks",
        );
        let more = set(name, most.saturating_mul(2).min(highest));
        let fix = [look, more].concat();
        let fail = "further ones fail with MAXWAITERS";
        let cases = [
            (now >= most, Error, fail, fix.clone()),
            (is_nearly(now, most), Warning, "", fix),
        ];
        found.extend(first(format!("{now} {what}, of {name} {most}"), cases)?);
    }
    Ok(found)
}
