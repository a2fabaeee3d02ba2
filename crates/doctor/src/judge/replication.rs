//! Replicas, and whether a primary takes writes.

use crate::facts::{Facts, Node, Write};
use crate::finding::{Judged, act, advice, error, ok, ok_or, run, set, shell, warning};

/// The condition of docs/operations/switching.md for a replica that takes over.
const LONGEST_LAG: i64 = 1;

pub(super) fn link(facts: &Facts, node: &Node) -> Judged {
    if !node.is_replica() {
        return Ok(vec![]);
    }
    let primary = format!(
        "{}:{}",
        node.told("master_host")?.unwrap_or_default(),
        node.told("master_port")?.unwrap_or_default()
    );
    if node.told("master_link_status")? == Some("up") {
        return ok(format!("connected to its primary {primary}"));
    }
    let down = node.count("master_link_down_since_seconds")?;
    let seen = format!("a replica without a link to its primary {primary} for {down} s");
    let mut fix = shell(["read the last lines of both servers' logs"]);
    // A replica that cannot read what its primary has sends no more than that to its log.
    if node.module()?.is_none() && facts.nodes.iter().any(has_module) {
        fix.splice(0..0, act("load the module here: see the check module"));
    }
    let login = "CONFIG SET masteruser USER, CONFIG SET masterauth PASSWORD where the primary asks for a login";
    warning(seen, [fix, act(login)].concat())
}

fn has_module(node: &Node) -> bool {
    matches!(node.module(), Ok(Some(_)))
}

pub(super) fn lag(node: &Node) -> Judged {
    let mut found = Vec::new();
    for replica in node.replicas()? {
        let field = |name: &str| replica.get(name).map_or("", String::as_str);
        let address = format!("{}:{}", field("ip"), field("port"));
        let lag = field("lag").parse::<i64>().unwrap_or(0);
        let state = field("state");
        found.extend(if state != "online" {
            let seen = format!("the replica {address} is not online yet: {state}");
            let wait = act("wait until it has synchronized, or read its log");
            warning(seen, wait)?
        } else if lag > LONGEST_LAG {
            let look = format!("find out what delays {address} or the network to it");
            let seen = format!("the replica {address} was last heard from {lag} s ago");
            warning(seen, act(look))?
        } else {
            ok(format!("the replica {address} is online, lag {lag}"))?
        });
    }
    Ok(found)
}

pub(super) fn enough(node: &Node) -> Judged {
    let replicas = node.count("connected_slaves")?;
    if node.is_replica() || replicas == 0 {
        return Ok(vec![]);
    }
    let name = "min-replicas-to-write";
    let wanted = node.number(name)?.unwrap_or(0);
    let lag = node.number("min-replicas-max-lag")?.unwrap_or(0);
    if wanted > 0 && lag > 0 {
        return ok(format!(
            "a primary without {wanted} replicas grants nothing after {lag} s"
        ));
    }
    let seen = format!("{name} 0: an isolated primary keeps granting locks");
    if replicas > 1 {
        return advice(seen, set(name, 1));
    }
    let seen = format!("{seen}. With one replica, 1 would stop all locks while it is down");
    ok_or(seen, set(name, 1))
}

pub(super) fn writes(node: &Node) -> Judged {
    let failover = node.told("master_failover_state")?.unwrap_or("no-failover");
    match node.write.as_ref().map_err(Clone::clone)? {
        Write::Replica => Ok(vec![]),
        Write::Taken => ok("writes work"),
        Write::Held if failover != "no-failover" => error(
            format!("writes are delayed: {failover}"),
            run(["FAILOVER ABORT", "CLIENT UNPAUSE"]),
        ),
        Write::Held => error(
            "writes get no reply, but other commands do: writes are paused",
            run(["CLIENT UNPAUSE"]),
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
                "BUSY" => run(["SCRIPT KILL"]),
                _ => vec![],
            };
            error(format!("a write fails with {refusal}"), fix)
        }
    }
}
