//! Replicas, and whether a primary takes writes.

use super::Facts;
use crate::facts::{Node, Write, set};
use crate::finding::{Fix, Judged, Verdict};

/// What docs/operations/switching.md demands of a replica before it takes over.
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
        return Verdict::ok(format!("in step with {primary}")).alone();
    }
    let down = node.count("master_link_down_since_seconds")?;
    let seen = format!("a replica without a link to its primary {primary} for {down} s");
    let mut fix = vec![Fix::Shell(
        "read the last lines of both servers' logs".to_owned(),
    )];
    // A replica that cannot read what its primary has sends no more than that to its log.
    if node.module()?.is_none() && facts.nodes.iter().any(has_module) {
        fix.insert(
            0,
            Fix::Do("load the module here: see the check module".to_owned()),
        );
    }
    let login = "CONFIG SET masteruser USER, CONFIG SET masterauth PASSWORD where the primary asks for a login";
    fix.push(Fix::Do(login.to_owned()));
    Verdict::warning(seen).fix(fix).alone()
}

fn has_module(node: &Node) -> bool {
    matches!(node.module(), Ok(Some(_)))
}

pub(super) fn lag(_: &Facts, node: &Node) -> Judged {
    let mut found = Vec::new();
    for replica in node.replicas()? {
        let field = |name: &str| replica.get(name).map_or("", String::as_str);
        let address = format!("{}:{}", field("ip"), field("port"));
        let lag = field("lag").parse::<i64>().unwrap_or(0);
        let state = field("state");
        if state != "online" {
            let seen = format!("the replica {address} is not online yet: {state}");
            let wait =
                Fix::Do("wait for the end of its synchronisation, or read its log".to_owned());
            found.push(Verdict::warning(seen).fix([wait]));
        } else if lag > LONGEST_LAG {
            let seen = format!("the replica {address} was last heard {lag} s ago");
            let look = Fix::Do(format!(
                "find out what delays {address} or the network to it"
            ));
            found.push(Verdict::warning(seen).fix([look]));
        } else {
            found.push(Verdict::ok(format!(
                "the replica {address} is online, lag {lag}"
            )));
        }
    }
    Ok(found)
}

pub(super) fn read_only(_: &Facts, node: &Node) -> Judged {
    if !node.is_replica() {
        return Ok(vec![]);
    }
    if node.setting("replica-read-only")?.unwrap_or("yes") == "yes" {
        return Verdict::ok("replica-read-only yes").alone();
    }
    let seen = "replica-read-only no: DEL and the like change locks here, and not on the primary";
    Verdict::warning(seen)
        .fix(set("replica-read-only", "yes"))
        .alone()
}

pub(super) fn enough(_: &Facts, node: &Node) -> Judged {
    let replicas = node.count("connected_slaves")?;
    if node.is_replica() || replicas == 0 {
        return Ok(vec![]);
    }
    let wanted = node.number("min-replicas-to-write")?.unwrap_or(0);
    let lag = node.number("min-replicas-max-lag")?.unwrap_or(0);
    if wanted > 0 && lag > 0 {
        let seen = format!("a primary without {wanted} replicas grants nothing after {lag} s");
        return Verdict::ok(seen).alone();
    }
    let seen = "min-replicas-to-write 0: an isolated primary keeps granting locks";
    let fix = set("min-replicas-to-write", 1);
    if replicas == 1 {
        let seen = format!("{seen}. With one replica, 1 would stop all locks while it is down");
        return Verdict::ok(seen).fix(fix).alone();
    }
    Verdict::warning(seen).fix(fix).alone()
}

pub(super) fn writes(_: &Facts, node: &Node) -> Judged {
    let failover = node.told("master_failover_state")?.unwrap_or("no-failover");
    let handing_over = failover != "no-failover";
    match node.write.as_ref().map_err(Clone::clone)? {
        Write::Replica => Ok(vec![]),
        Write::Taken => Verdict::ok("writes are taken").alone(),
        Write::Held if handing_over => {
            let seen = format!("writes are delayed: {failover}");
            let abort = ["FAILOVER ABORT", "CLIENT UNPAUSE"].map(|line| Fix::Run(line.to_owned()));
            Verdict::error(seen).fix(abort).alone()
        }
        Write::Held => {
            let seen = "writes get no reply, but other commands do: writes are paused";
            let go_on = Fix::Run("CLIENT UNPAUSE".to_owned());
            Verdict::error(seen).fix([go_on]).alone()
        }
        Write::Refused(error) => {
            let fix = match error.split(' ').next().unwrap_or_default() {
                "NOREPLICAS" => {
                    let back = Fix::Do("bring the replicas back".to_owned());
                    let good = node.count("min_slaves_good_slaves")?;
                    [vec![back], set("min-replicas-to-write", good)].concat()
                }
                "MISCONF" => vec![Fix::Do("see the checks save and aof".to_owned())],
                "CLUSTERDOWN" => vec![Fix::Do("see the check cluster-state".to_owned())],
                "LOADING" => vec![Fix::Do("wait until its files are loaded".to_owned())],
                "BUSY" => vec![Fix::Run("SCRIPT KILL".to_owned())],
                _ => vec![],
            };
            let seen = format!("a write fails with {error}");
            Verdict::error(seen).fix(fix).alone()
        }
    }
}
