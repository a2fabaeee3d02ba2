//! A primary of a cluster, and its replica.

use crate::document::{follow, name};
use crate::load::{KEY, Load, line_up};
use testbed::{Cluster, Expect, Refusal, Server, Talk, cluster};

#[test]
fn by_cluster_failover() {
    let nodes = Cluster::start(3, 1);
    let old = nodes.serves(cluster::slot(KEY));
    let new = nodes.replicas_of(old)[0];
    let names = [("B", name(nodes.node(new)))];
    let mut waiter = line_up(nodes.node(old));
    let compass = |at: usize, refusal: Option<&Refusal>| redirected(&nodes, refusal).unwrap_or(at);
    let load = Load::new(nodes.nodes(), &compass);
    load.around("cluster", || {
        follow("## In a cluster", &names);
        let is_sent_on = Server::version().is_valkey_from(9, 0);
        let word = if is_sent_on { "MOVED" } else { "UNBLOCKED" };
        waiter.receive().refused(word);
    });
    nodes.wait_until_whole();
    assert_eq!(nodes.serves(cluster::slot(KEY)), new);
    assert_eq!(nodes.replicas_of(new), [old]);
    load.assert_sound(nodes.node(new));
}

/// The node that a `MOVED` names.
fn redirected(nodes: &Cluster, refusal: Option<&Refusal>) -> Option<usize> {
    let refusal = refusal.filter(|refusal| refusal.code() == "MOVED")?;
    let address = refusal.text().split(' ').nth(2)?;
    (0..nodes.nodes().len()).find(|node| nodes.address(*node) == address)
}
