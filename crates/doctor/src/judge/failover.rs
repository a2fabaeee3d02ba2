//! Replicas, clusters and Sentinels: whether a primary takes writes, and what is lost when another server takes over.

use crate::facts::{Clock, Facts, Node, Watched, Write, value};
use crate::finding::Severity::{Advice, Error, Fine, Warning};
use crate::finding::{
    Fix, Judged, Seen, Unseen, act, conf, known, ok, only, or_ok, run, set, shell,
};
use redis_lock_tool::number;

/// The condition of docs/operations/switching.md for a replica that takes over.
const LONGEST_LAG: i64 = 1;
/// Writes are paused in a planned switch, and Sentinels get no answer then (docs/operations/switching.md).
const SHORTEST_DOWN_AFTER: i64 = 5000;
/// A third of the shortest lease in a session: by so much a lease may be shorter than its owner expects.
const MOST_BETWEEN_SERVERS: i64 = 333;
/// The shortest lease in a session.
const MOST_FROM_HERE: i64 = 1000;

/// A server that could not be asked, and why.
pub(super) fn reach(why: &str) -> Judged {
    let look = "run the doctor on a machine that reaches it, with a valid login; or start it";
    Err(Unseen::Refused(why.to_owned(), act(look)))
}

pub(super) fn link(facts: &Facts, node: &Node) -> Judged {
    only(node.is_replica())?;
    let (host, port) = (node.told("master_host"), node.told("master_port"));
    let primary = format!("its primary {}:{}", host.unwrap_or(""), port.unwrap_or(""));
    if node.told("master_link_status")? == "up" {
        return ok(format!("connected to {primary}"));
    }
    let down = node.count("master_link_down_since_seconds")?;
    let seen = format!("a replica without a link to {primary} for {down} s");
    let look = shell("read the last lines of both servers' logs");
    let login = act(
        "CONFIG SET masteruser USER, CONFIG SET masterauth PASSWORD where the primary asks for a login",
    );
    // A replica that cannot read what its primary has sends no more than that to its log.
    let lacks_module = known(node.module())?.is_none();
    let mut fix = [look, login].concat();
    if lacks_module && facts.nodes.iter().any(|node| node.module().is_ok()) {
        fix.splice(0..0, act("load the module here: see the check module"));
    }
    Warning.says(seen, fix)
}

pub(super) fn lag(node: &Node) -> Judged {
    let mut found = Vec::new();
    for replica in node.replicas()? {
        let field = |name: &str| replica.get(name).map_or("", String::as_str);
        let address = format!("{}:{}", field("ip"), field("port"));
        let lag = field("lag").parse::<i64>().unwrap_or(0);
        let state = field("state");
        found.extend(if state != "online" {
            let wait = act("wait until it has synchronized, or read its log");
            Warning.says(
                format!("the replica {address} is not online yet: {state}"),
                wait,
            )?
        } else if lag > LONGEST_LAG {
            let look = format!("find out what delays {address} or the network to it");
            let seen = format!("the replica {address} was last heard from {lag} s ago");
            Warning.says(seen, act(look))?
        } else {
            ok(format!("the replica {address} is online, lag {lag}"))?
        });
    }
    Ok(found)
}

pub(super) fn enough(node: &Node) -> Judged {
    let replicas = node.count("connected_slaves")?;
    only(!node.is_replica() && replicas > 0)?;
    let name = "min-replicas-to-write";
    let (wanted, lag) = (node.number(name)?, node.number("min-replicas-max-lag")?);
    if wanted > 0 && lag > 0 {
        let seen = format!("a primary without {wanted} replicas grants nothing after {lag} s");
        return ok(seen);
    }
    let seen = format!("{name} 0: an isolated primary keeps granting locks");
    if replicas > 1 {
        return Advice.says(seen, set(name, 1));
    }
    let seen = format!("{seen}. With one replica, 1 would stop all locks while it is down");
    Fine.says(seen, set(name, 1))
}

pub(super) fn writes(node: &Node) -> Judged {
    let failover = node.told("master_failover_state");
    let failover = failover.unwrap_or("no-failover");
    match node.write.as_ref().map_err(Clone::clone)? {
        Write::Taken => ok("writes work"),
        Write::Held if failover != "no-failover" => Error.says(
            format!("writes are delayed: {failover}"),
            [run("FAILOVER ABORT"), run("CLIENT UNPAUSE")].concat(),
        ),
        Write::Held => Error.says(
            "writes get no reply, but other commands do: writes are paused",
            run("CLIENT UNPAUSE"),
        ),
        Write::Refused(refusal) => {
            let fix = match refusal.split(' ').next().unwrap_or_default() {
                "NOREPLICAS" => {
                    let good = node.count("min_slaves_good_slaves")?;
                    let fewer = set("min-replicas-to-write", good);
                    [act("bring the replicas back"), fewer].concat()
                }
                "MISCONF" => act("see the checks save and aof"),
                "CLUSTERDOWN" => act("see the check cluster-state"),
                "LOADING" => act("wait until its files are loaded"),
                "BUSY" => run("SCRIPT KILL"),
                _ => vec![],
            };
            Error.says(format!("a write fails with {refusal}"), fix)
        }
    }
}

/// How long a server is silent until another takes over, where that is known: in a cluster, or by a Sentinel.
fn silence(facts: &Facts, node: &Node) -> Seen<(i64, String)> {
    if node.in_cluster() {
        let ms = node.number("cluster-node-timeout")?;
        return Ok((ms, format!("cluster-node-timeout {ms}")));
    }
    let named = |watched: &Watched| {
        let ms = watched.down_after()?;
        let name = &watched.name;
        Some((ms, format!("down-after-milliseconds {ms} of {name}")))
    };
    let shortest = facts.watched.iter().filter_map(named).min();
    shortest.ok_or(Unseen::Absent)
}

pub(super) fn token_lead(facts: &Facts, node: &Node) -> Judged {
    let (silence, named) = silence(facts, node)?;
    let name = "lock.max-token-lead-ms";
    let lead = node.number(name)?;
    let seen = format!("{name} {lead}, {named}");
    if lead < silence {
        return ok(seen);
    }
    let fall = "after a failover tokens may be below one that was raised before";
    Warning.says(format!("{seen}: {fall}"), set(name, silence / 2))
}

pub(super) fn lease(facts: &Facts, node: &Node) -> Judged {
    let (silence, named) = silence(facts, node)?;
    let name = "lock.default-lease-ms";
    let lease = node.number(name)?;
    let seen = format!("{name} {lease}, {named}");
    if lease > silence {
        return ok(seen);
    }
    let lost =
        "such a lease expires before another server takes over, and its owner loses the lock";
    Warning.says(format!("{seen}: {lost}"), set(name, silence * 2))
}

pub(super) fn sentinel(watched: &Watched) -> Judged {
    let name = &watched.name;
    let mut found = Vec::new();
    if let Some(problem) = watched.quorum.as_ref().map_err(Clone::clone)? {
        let start = act("start the Sentinels that are down, or repair the network");
        let seen = format!("{name}: no failover is possible: {problem}");
        found.extend(Error.says(seen, start)?);
    }
    let flags = watched.fields.get("flags").map_or("", String::as_str);
    if flags.contains("down") {
        let start = act("start the primary, or wait for the failover");
        let seen = format!("{name}: the Sentinel considers the primary dead ({flags})");
        found.extend(Error.says(seen, start)?);
    }
    let down_after = watched.down_after();
    if let Some(ms) = down_after.filter(|ms| *ms < SHORTEST_DOWN_AFTER) {
        let switch = "in a planned switch the Sentinels may consider the primary dead";
        let seen = format!("{name}: down-after-milliseconds {ms}: {switch}");
        let set = format!("SENTINEL SET {name} down-after-milliseconds {SHORTEST_DOWN_AFTER}");
        found.extend(Warning.says(seen, run(set))?);
    }
    or_ok(found, format!("{name}: a failover is possible"))
}

pub(super) fn cluster_state(node: &Node) -> Judged {
    let state = value(&node.cluster, "cluster_state")?;
    let slots = |name| value(&node.cluster, name).unwrap_or_default();
    let (served, down) = (slots("cluster_slots_ok"), slots("cluster_slots_fail"));
    let seen = format!(
        "cluster_state {state}, {served} slots served, {down} slots on nodes that are down"
    );
    if state == "ok" {
        return ok(seen);
    }
    let start = act("start the nodes that are down, or give their slots to others");
    let look = [run("CLUSTER NODES"), run("CLUSTER SHARDS")].concat();
    let seen = format!("{seen}: commands on locks fail with CLUSTERDOWN");
    Error.says(seen, [start, look].concat())
}

pub(super) fn tls(node: &Node) -> Judged {
    // A server that was built without TLS does not know the setting.
    let port = node.number("tls-port")?;
    only(port != 0)?;
    let seen = format!("tls-port {port}");
    if !node.in_cluster() || node.setting("tls-cluster")? != "no" {
        return ok(seen);
    }
    let mut seen = format!("{seen} and tls-cluster no: traffic between nodes is not encrypted");
    if node.server()?.0 == "Redis" && node.version()? < (7, 2) {
        seen.push_str(", and TLS clients are redirected to ports without TLS");
    }
    // If it is set while the server runs, Redis 7.0 keeps announcing the old ports.
    let restart = act("on all nodes, and restart them: nodes with different values do not connect");
    Warning.says(seen, [conf("tls-cluster yes"), restart].concat())
}

/// A replica that takes over judges leases by its own clock, and gives tokens by it.
pub(super) fn clock_replica(facts: &Facts, node: &Node) -> Judged {
    let theirs = facts.primary_of(node)?.clock.clone()?;
    let own = node.clock.clone()?;
    let between = Clock {
        ahead_ms: own.ahead_ms - theirs.ahead_ms,
        inexact_ms: own.inexact_ms + theirs.inexact_ms,
    };
    let seen = between.seen("its primary's");
    let lead = node.number("lock.max-token-lead-ms").unwrap_or(5000);
    if -between.ahead_ms - between.inexact_ms > lead {
        let seen = format!("{seen}: after a failover tokens may fall");
        return Error.says(seen, in_step());
    }
    if between.is_beyond(MOST_BETWEEN_SERVERS) {
        let seen =
            format!("{seen}: after a failover leases end too early or too late by that much");
        return Warning.says(seen, in_step());
    }
    ok(seen)
}

pub(super) fn clock_here(node: &Node) -> Judged {
    let clock = node.clock.clone()?;
    let seen = clock.seen("this machine's");
    if clock.is_beyond(MOST_FROM_HERE) {
        return Warning.says(seen, in_step());
    }
    ok(seen)
}

fn in_step() -> Vec<Fix> {
    [shell("timedatectl set-ntp true"), shell("chronyc tracking")].concat()
}

impl Clock {
    fn seen(self, whose: &str) -> String {
        let told = match self.ahead_ms {
            0 => "at".to_owned(),
            ahead @ 1.. => format!("{ahead} ms ahead of"),
            ahead => format!("{} ms behind", -ahead),
        };
        let inexact = self.inexact_ms;
        format!("its clock is {told} {whose} (measured to {inexact} ms)")
    }

    /// Whether it is surely wrong by more.
    fn is_beyond(self, ms: i64) -> bool {
        self.ahead_ms.abs() - self.inexact_ms > ms
    }
}

impl Watched {
    fn down_after(&self) -> Option<i64> {
        number(&self.fields, "down-after-milliseconds")
    }
}
