//! A cluster: whether it serves all slots, and what happens when it does not; and TLS.

use crate::facts::Node;
use crate::finding::{Fix, Judged, act, advice, error, ok, run, set, warning};

pub(super) fn state(node: &Node) -> Judged {
    let cluster = node.cluster.as_ref().map_err(Clone::clone)?;
    let field = |name: &str| cluster.get(name).map_or("", String::as_str);
    let seen = format!(
        "cluster_state {}, {} slots served, {} of nodes that are down",
        field("cluster_state"),
        field("cluster_slots_ok"),
        field("cluster_slots_fail")
    );
    if field("cluster_state") == "ok" {
        return ok(seen);
    }
    let start = act("start the nodes that are down, or give their slots to others");
    let look = run(["CLUSTER NODES", "CLUSTER SHARDS"]);
    let seen = format!("{seen}: locks are answered CLUSTERDOWN");
    error(seen, [start, look].concat())
}

pub(super) fn coverage(node: &Node) -> Judged {
    let name = "cluster-require-full-coverage";
    if node.setting(name)? != Some("yes") {
        return ok("a part that is down stops no locks of the others");
    }
    let seen = "when one primary is down, every lock is, on all nodes";
    advice(format!("{name} yes: {seen}"), set(name, "no"))
}

pub(super) fn reads(node: &Node) -> Judged {
    let name = "cluster-allow-reads-when-down";
    if node.setting(name)?.unwrap_or("no") == "no" {
        return ok("a node that is cut off tells nothing of locks");
    }
    let seen = "a node that is cut off tells of locks as they were";
    warning(format!("{name} yes: {seen}"), set(name, "no"))
}

pub(super) fn tls(node: &Node) -> Judged {
    // A server that was built without TLS does not know the setting.
    let port = node.number("tls-port")?.unwrap_or(0);
    if port == 0 {
        return Ok(vec![]);
    }
    if !node.in_cluster() || node.setting("tls-cluster")? != Some("no") {
        return ok(format!("tls-port {port}"));
    }
    let (server, version) = node.server()?;
    let mut seen = format!("tls-port {port} and tls-cluster no: the nodes talk without encryption");
    if server == "Redis" && version < (7, 2, 0) {
        seen.push_str(", and clients that come by TLS are sent on to ports without it");
    }
    // Set while it runs, Redis 7.0 goes on telling the old ports.
    let line = vec![Fix::Conf("tls-cluster yes".to_owned())];
    let restart = act("on all nodes, and restart them: those that differ do not hear each other");
    warning(seen, [line, restart].concat())
}
