//! A cluster: whether it serves all slots, and what happens when it does not; and TLS.

use super::Facts;
use crate::facts::{Node, set};
use crate::finding::{Fix, Judged, Verdict};

pub(super) fn state(_: &Facts, node: &Node) -> Judged {
    if !node.in_cluster() {
        return Ok(vec![]);
    }
    let cluster = node.cluster.as_ref().map_err(Clone::clone)?;
    let field = |name: &str| cluster.get(name).map_or("", String::as_str);
    let seen = format!(
        "cluster_state {}, {} slots served, {} of nodes that are down",
        field("cluster_state"),
        field("cluster_slots_ok"),
        field("cluster_slots_fail")
    );
    if field("cluster_state") == "ok" {
        return Verdict::ok(seen).alone();
    }
    let look = ["CLUSTER NODES", "CLUSTER SHARDS"].map(|line| Fix::Run(line.to_owned()));
    let start = Fix::Do("start the nodes that are down, or give their slots to others".to_owned());
    let seen = format!("{seen}: commands on locks fail with CLUSTERDOWN");
    Verdict::error(seen).fix([start]).fix(look).alone()
}

pub(super) fn coverage(_: &Facts, node: &Node) -> Judged {
    if !node.in_cluster() {
        return Ok(vec![]);
    }
    if node.setting("cluster-require-full-coverage")? != Some("yes") {
        return Verdict::ok("a part that is down does not stop the locks of the others").alone();
    }
    let seen =
        "cluster-require-full-coverage yes: when one primary is down, every lock is, on all nodes";
    let part = set("cluster-require-full-coverage", "no");
    Verdict::warning(seen).fix(part).alone()
}

pub(super) fn reads(_: &Facts, node: &Node) -> Judged {
    if !node.in_cluster() {
        return Ok(vec![]);
    }
    if node
        .setting("cluster-allow-reads-when-down")?
        .unwrap_or("no")
        == "no"
    {
        return Verdict::ok("an isolated node does not answer about locks").alone();
    }
    let seen = "cluster-allow-reads-when-down yes: an isolated node returns old states of locks";
    let never = set("cluster-allow-reads-when-down", "no");
    Verdict::warning(seen).fix(never).alone()
}

pub(super) fn tls(_: &Facts, node: &Node) -> Judged {
    // A server that was built without TLS does not know the setting.
    let port = node.number("tls-port")?.unwrap_or(0);
    if port == 0 {
        return Ok(vec![]);
    }
    if node.in_cluster() && node.setting("tls-cluster")? == Some("no") {
        let (server, version) = node.server()?;
        let mut seen =
            format!("tls-port {port} and tls-cluster no: traffic between nodes is not encrypted");
        if server == "Redis" && version < (7, 2, 0) {
            seen.push_str(", and TLS clients are redirected to ports without TLS");
        }
        // Set while it runs, Redis 7.0 goes on telling the old ports.
        let line = Fix::Conf("tls-cluster yes".to_owned());
        let restart = Fix::Do(
            "on all nodes, and restart them: nodes with different values do not connect".to_owned(),
        );
        return Verdict::warning(seen).fix([line, restart]).alone();
    }
    Verdict::ok(format!("tls-port {port}")).alone()
}
