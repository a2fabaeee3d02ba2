//! Replicas, clusters and Sentinels: whether a primary accepts writes, and what is lost in a failover.

use crate::facts::{Clock, Facts, Node, Watched, Write, value};
use crate::finding::Severity::{Advice, Error, Fine, Warning};
use crate::finding::{
    Fix, Judged, Seen, Unseen, act, conf, every, first, known, ok, only, run, set, shell,
};
use redis_lock_tool::number;

/// The condition of docs/operations/switching.md for a replica that takes over.
const LONGEST_LAG: i64 = 1;
/// A planned switch pauses writes, and Sentinels get no answer meanwhile (docs/operations/switching.md).
const SHORTEST_DOWN_AFTER: i64 = 5000;
/// A third of the shortest lease in a session. A lease may be shorter by this much than its owner expects.
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
    // Without the module a replica cannot read its primary's data, but its log does not say why.
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
        let (state, lag) = (field("state"), field("lag").parse().unwrap_or(0));
        let wait = act("wait until it has synchronized, or read its log");
        let look = act(format!(
            "find out what delays {address} or the network to it"
        ));
        let cases = [
            (state != "online", Warning, "not online yet", wait),
            (lag > LONGEST_LAG, Warning, "too long ago", look),
        ];
        let seen = format!("the replica {address} is {state}, last heard from {lag} s ago");
        found.extend(first(seen, cases)?);
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
    let down = "with one replica, 1 would stop all locks while it is down";
    let cases = [
        (replicas > 1, Advice, "", set(name, 1)),
        (true, Fine, down, set(name, 1)),
    ];
    first(
        format!("{name} 0: an isolated primary keeps granting locks"),
        cases,
    )
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

/// How long a server must be silent before another takes over, which is known in a cluster or from a Sentinel.
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
    let fall = "after a failover tokens may be below one that was raised before";
    let case = (lead >= silence, Warning, fall, set(name, silence / 2));
    first(format!("{name} {lead}, {named}"), [case])
}

pub(super) fn lease(facts: &Facts, node: &Node) -> Judged {
    let (silence, named) = silence(facts, node)?;
    let name = "lock.default-lease-ms";
    let lease = node.number(name)?;
    let lost =
        "such a lease expires before another server takes over, and its owner loses the lock";
    let case = (lease <= silence, Warning, lost, set(name, silence * 2));
    first(format!("{name} {lease}, {named}"), [case])
}

pub(super) fn sentinel(watched: &Watched) -> Judged {
    let Watched { name, fields, .. } = watched;
    let quorum = watched.quorum.as_ref().map_err(Clone::clone)?;
    let problem = quorum.as_deref().unwrap_or_default();
    let none = format!("no failover is possible: {problem}");
    let repair = act("start the Sentinels that are down, or repair the network");
    let flags = fields.get("flags").map_or("", String::as_str);
    let dead = format!("the Sentinel considers the primary dead ({flags})");
    let wait = act("start the primary, or wait for the failover");
    let ms = watched.down_after().unwrap_or(SHORTEST_DOWN_AFTER);
    let switch = format!(
        "down-after-milliseconds {ms}: in a planned switch the Sentinels may consider the primary dead"
    );
    let set = format!("SENTINEL SET {name} down-after-milliseconds {SHORTEST_DOWN_AFTER}");
    let cases = [
        (quorum.is_some(), Error, none.as_str(), repair),
        (flags.contains("down"), Error, &dead, wait),
        (ms < SHORTEST_DOWN_AFTER, Warning, &switch, run(set)),
    ];
    every(format!("{name}, as this Sentinel sees it"), cases)
}

pub(super) fn cluster_state(node: &Node) -> Judged {
    let state = value(&node.cluster, "cluster_state")?;
    let slots = |name| value(&node.cluster, name).unwrap_or_default();
    let (served, down) = (slots("cluster_slots_ok"), slots("cluster_slots_fail"));
    let seen = format!(
        "cluster_state {state}, {served} slots served, {down} slots on nodes that are down"
    );
    let start = act("start the nodes that are down, or give their slots to others");
    let fix = [start, run("CLUSTER NODES"), run("CLUSTER SHARDS")].concat();
    let fail = "commands on locks fail with CLUSTERDOWN";
    first(seen, [(state != "ok", Error, fail, fix)])
}

pub(super) fn tls(node: &Node) -> Judged {
    // A server without TLS support does not have the setting.
    let port = node.number("tls-port")?;
    only(port != 0)?;
    let is_plain = node.in_cluster() && node.setting("tls-cluster")? == "no";
    let redirects = node.server()?.0 == "Redis" && node.version()? < (7, 2);
    let open = "tls-cluster no: traffic between nodes is not encrypted";
    let astray = format!("{open}, and TLS clients are redirected to ports without TLS");
    // A restart is needed, because Redis 7.0 keeps announcing the old ports if the setting changes while it runs.
    let restart = act("on all nodes, and restart them: nodes with different values do not connect");
    let fix = [conf("tls-cluster yes"), restart].concat();
    let cases = [
        (is_plain && redirects, Warning, astray.as_str(), fix.clone()),
        (is_plain, Warning, open, fix),
    ];
    first(format!("tls-port {port}"), cases)
}

/// Compares the clocks of a primary and its replica, because a replica that takes over uses its own clock for leases
/// and tokens.
pub(super) fn clock_replica(facts: &Facts, node: &Node) -> Judged {
    let theirs = facts.primary_of(node)?.clock.clone()?;
    let own = node.clock.clone()?;
    let between = Clock {
        ahead_ms: own.ahead_ms - theirs.ahead_ms,
        inexact_ms: own.inexact_ms + theirs.inexact_ms,
    };
    let lead = node.number("lock.max-token-lead-ms").unwrap_or(5000);
    let falls = -between.ahead_ms - between.inexact_ms > lead;
    let wrong = between.is_beyond(MOST_BETWEEN_SERVERS);
    let leases = "after a failover leases end too early or too late by that much";
    let cases = [
        (falls, Error, "after a failover tokens may fall", in_step()),
        (wrong, Warning, leases, in_step()),
    ];
    first(between.seen("its primary's"), cases)
}

pub(super) fn clock_here(node: &Node) -> Judged {
    let clock = node.clock.clone()?;
    let case = (clock.is_beyond(MOST_FROM_HERE), Warning, "", in_step());
    first(clock.seen("this machine's"), [case])
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

    /// Whether the clock is certainly wrong by more than this.
    fn is_beyond(self, ms: i64) -> bool {
        self.ahead_ms.abs() - self.inexact_ms > ms
    }
}

impl Watched {
    fn down_after(&self) -> Option<i64> {
        number(&self.fields, "down-after-milliseconds")
    }
}
