//! A cluster: whether it serves all slots, and what happens when it does not; and TLS.

use crate::facts::Node;
use crate::finding::{Fix, Judged, act, error, ok, run, warning};

pub(super) fn state(node: &Node) -> Judged {
    let cluster = node.cluster.as_ref().map_err(Clone::clone)?;
    let field = |name: &str| cluster.get(name).map_or("", String::as_str);
    let seen = format!(
        "cluster_state {}, {} slots served, {} slots on nodes that are down",
        field("cluster_state"),
        field("cluster_slots_ok"),
        field("cluster_slots_fail")
    );
    if field("cluster_state") == "ok" {
        return ok(seen);
    }
    let start = act("start the nodes that are down, or give their slots to others");
    let look = run(["CLUSTER NODES", "CLUSTER SHARDS"]);
    let seen = format!("{seen}: commands on locks fail with CLUSTERDOWN");
    error(seen, [start, look].concat())
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
    let mut seen =
        format!("tls-port {port} and tls-cluster no: traffic between nodes is not encrypted");
    if server == "Redis" && version < (7, 2, 0) {
        seen.push_str(", and TLS clients are redirected to ports without TLS");
    }
    // If it is set while the server runs, Redis 7.0 keeps announcing the old ports.
    let line = vec![Fix::Conf("tls-cluster yes".to_owned())];
    let restart = act("on all nodes, and restart them: nodes with different values do not connect");
    warning(seen, [line, restart].concat())
}
