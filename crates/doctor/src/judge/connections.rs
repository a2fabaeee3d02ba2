//! Connections: those that the server closes, that it does not, and how many there may be.

use super::Facts;
use crate::facts::{Node, Seen, set};
use crate::finding::{Fix, Judged, Verdict};

/// What redis.conf at the top of the repository has.
const KEEPALIVE: i64 = 10;
/// A vanished host is noticed after twice as much: two minutes.
const LONGEST_KEEPALIVE: i64 = 60;
/// What the server keeps of its open files for itself.
const OWN_FILES: i64 = 32;

pub(super) fn timeout(_: &Facts, node: &Node) -> Judged {
    let Some(seconds) = node.number("timeout")? else {
        return Ok(vec![]);
    };
    if seconds == 0 {
        return Verdict::ok("timeout 0: no idle connection is closed").alone();
    }
    Verdict::ok(format!(
        "timeout {seconds}: closes idle connections, that of a session too whose program does not poll; waiting calls \
         and POLLs are not idle"
    ))
    .fix(set("timeout", 0))
    .alone()
}

pub(super) fn keepalive(_: &Facts, node: &Node) -> Judged {
    let Some(seconds) = node.number("tcp-keepalive")? else {
        return Ok(vec![]);
    };
    let fix = set("tcp-keepalive", KEEPALIVE);
    match seconds {
        0 => Verdict::warning(
            "tcp-keepalive 0: a vanished host keeps its place in the queue forever",
        )
        .fix(fix),
        1..=LONGEST_KEEPALIVE => Verdict::ok(format!(
            "tcp-keepalive {seconds}: a vanished host is noticed after {} s",
            2 * seconds
        )),
        _ => Verdict::warning(format!(
            "tcp-keepalive {seconds}: a vanished host is noticed after {} s; only new connections take a new \
             value",
            2 * seconds
        ))
        .fix(fix),
    }
    .alone()
}

pub(super) fn clients(_: &Facts, node: &Node) -> Judged {
    let most = node.count("maxclients")?;
    if most == 0 {
        return Ok(vec![]);
    }
    let (here, refused) = (
        node.count("connected_clients")?,
        node.count("rejected_connections")?,
    );
    let seen = format!("{here} connections of maxclients {most}");
    if here > most - most / 10 {
        return Verdict::error(seen).fix(more(most, 2 * most)).alone();
    }
    if refused > 0 {
        let seen = format!(
            "{seen}; {refused} were refused since the start (or the last CONFIG RESETSTAT)"
        );
        let forget = Fix::Run("CONFIG RESETSTAT".to_owned());
        let fix = more(most, 2 * most).into_iter().chain([forget]);
        return Verdict::warning(seen).fix(fix).alone();
    }
    Verdict::ok(seen).alone()
}

pub(super) fn waiters(_: &Facts, node: &Node) -> Judged {
    let Some(total) = node.number("lock.max-waiters-total")? else {
        return Ok(vec![]);
    };
    let most = node.count("maxclients")?;
    let may_wait = may_wait(node, total)?;
    let seen =
        format!("lock.max-waiters-total {total}, maxclients {most}: {may_wait} calls may wait");
    if may_wait == total || !lowered(most) {
        return Verdict::ok(seen).alone();
    }
    let seen = format!("{seen}; the limit of open files is why maxclients is so low");
    Verdict::warning(seen)
        .fix(set("lock.max-waiters-total", may_wait))
        .fix(more(most, total * 4 / 3 + OWN_FILES))
        .alone()
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
    let mut lines = set("maxclients", wanted);
    if lowered(most) {
        let files = wanted + OWN_FILES;
        lines.insert(
            0,
            Fix::Do(format!(
                "allow more open files and restart: LimitNOFILE={files} in the unit, or ulimit -n {files}"
            )),
        );
    }
    lines
}

/// Whether a server has lowered `maxclients` at its start to what the limit of open files allows: then it is
/// a round number less what the server keeps for itself.
fn lowered(most: i64) -> bool {
    let files = most + OWN_FILES;
    most < 10_000 && (files % 1024 == 0 || files.count_ones() == 1)
}
