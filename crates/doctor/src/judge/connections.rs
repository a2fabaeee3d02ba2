//! Connections: those that the server closes, that it does not, and how many there may be.

use crate::facts::Node;
use crate::finding::{Fix, Judged, Seen, act, advice, error, ok, ok_or, run, set, warning};

/// The value in redis.conf at the top of the repository.
const KEEPALIVE: i64 = 10;
/// A vanished host is noticed after twice as much: two minutes.
const LONGEST_KEEPALIVE: i64 = 60;
/// The open files that the server reserves for itself.
const OWN_FILES: i64 = 32;

pub(super) fn timeout(node: &Node) -> Judged {
    match node.number("timeout")? {
        None => Ok(vec![]),
        Some(0) => ok("timeout 0: no idle connection is closed"),
        Some(seconds) => {
            let seen = format!(
                "timeout {seconds}: closes idle connections, including that of a session whose program does not poll; \
                 waiting calls and POLLs are not idle"
            );
            ok_or(seen, set("timeout", 0))
        }
    }
}

pub(super) fn keepalive(node: &Node) -> Judged {
    let Some(seconds) = node.number("tcp-keepalive")? else {
        return Ok(vec![]);
    };
    let fix = set("tcp-keepalive", KEEPALIVE);
    if seconds == 0 {
        let seen = "tcp-keepalive 0: a vanished host keeps its place in the queue forever";
        return warning(seen, fix);
    }
    let noticed = 2 * seconds;
    let seen = format!("tcp-keepalive {seconds}: a vanished host is noticed after {noticed} s");
    if seconds <= LONGEST_KEEPALIVE {
        return ok(seen);
    }
    advice(
        format!("{seen}; a new value applies to new connections only"),
        fix,
    )
}

pub(super) fn clients(node: &Node) -> Judged {
    let most = node.count("maxclients")?;
    if most == 0 {
        return Ok(vec![]);
    }
    let here = node.count("connected_clients")?;
    let refused = node.count("rejected_connections")?;
    let seen = format!("{here} connections of maxclients {most}");
    let fix = more(most, 2 * most);
    if here > most - most / 10 {
        return error(seen, fix);
    }
    if refused == 0 {
        return ok(seen);
    }
    let seen =
        format!("{seen}; {refused} were refused since the start (or the last CONFIG RESETSTAT)");
    warning(seen, [fix, run(["CONFIG RESETSTAT"])].concat())
}

pub(super) fn waiters(node: &Node) -> Judged {
    let Some(total) = node.number("lock.max-waiters-total")? else {
        return Ok(vec![]);
    };
    let most = node.count("maxclients")?;
    let may_wait = may_wait(node, total)?;
    let seen =
        format!("lock.max-waiters-total {total}, maxclients {most}: {may_wait} calls may wait");
    if may_wait == total || !lowered(most) {
        return ok(seen);
    }
    let fewer = set("lock.max-waiters-total", may_wait);
    warning(
        format!("{seen}; the limit of open files has lowered maxclients"),
        [fewer, more(most, total * 4 / 3 + OWN_FILES)].concat(),
    )
}

/// How many calls may wait where `lock.max-waiters-total` is `total`: on three quarters of the connections at
/// most.
pub(super) fn may_wait(node: &Node, total: i64) -> Seen<i64> {
    Ok(match node.count("maxclients")? {
        0 => total,
        most => total.min(most * 3 / 4),
    })
}

/// More connections; where the system has set the limit, more open files come first.
fn more(most: i64, wanted: i64) -> Vec<Fix> {
    let lines = set("maxclients", wanted);
    if !lowered(most) {
        return lines;
    }
    let files = wanted + OWN_FILES;
    let first = act(format!(
        "allow more open files and restart: LimitNOFILE={files} in the unit, or ulimit -n {files}"
    ));
    [first, lines].concat()
}

/// Whether a server has lowered `maxclients` at its start to what the limit of open files allows: then it is
/// a round number less what the server keeps for itself.
fn lowered(most: i64) -> bool {
    let files = most + OWN_FILES;
    most < 10_000 && (files % 1024 == 0 || files.count_ones() == 1)
}
