//! A cluster, from any of its nodes.

use crate::support::{comes, doctor, gone_by, healthy, look};
use testbed::{Builder, Cluster, Expect, cmd, run};

fn settings(builder: Builder) -> Builder {
    builder
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("tcp-keepalive", "10")
        .config("lock.max-waiters-total", "5000")
}

fn on_all(cluster: &Cluster, words: &str) {
    for node in cluster.nodes().iter().filter(|node| node.is_up()) {
        run(&mut node.connection(), words).okay();
    }
}

#[test]
fn a_cluster_as_it_comes_and_with_a_part_that_is_down() {
    let mut cluster = Cluster::start_with(3, 1, settings);
    let report = look(cluster.node(4));
    let servers = report.json["servers"].as_array().expect("servers");
    assert_eq!(servers.len(), 6, "{servers:#?}");
    for (check, severity) in [("token-lead", "warning"), ("cluster-coverage", "advice")] {
        assert_eq!(report.one(check, severity).servers().len(), 6, "{check}");
    }
    on_all(
        &cluster,
        report.one("token-lead", "warning").lines("run")[0],
    );

    let port = cluster.node(0).port().to_string();
    let words = ["--port", &port];
    gone_by(&words, "token-lead");
    cluster.node_mut(1).kill9();
    cluster.node_mut(4).kill9();
    let finding = comes(&words, "cluster-state");
    assert!(finding.seen().contains("CLUSTERDOWN"), "{finding:?}");
    // Its own slots are served again as soon as the others need not be.
    on_all(
        &cluster,
        report.one("cluster-coverage", "advice").lines("run")[0],
    );
    gone_by(&words, "cluster-coverage");
    gone_by(&words, "cluster-state");
    gone_by(&words, "writes");
    let unseen = doctor(&words).unseen();
    assert!(
        unseen.iter().any(|one| one.0["check"] == "reach"),
        "{unseen:?}"
    );
    for number in [1, 4] {
        cluster.node_mut(number).restart();
    }
    cluster.wait_until_whole();
    // They have forgotten what they were told.
    for check in ["token-lead", "cluster-coverage"] {
        let finding = comes(&words, check);
        assert_eq!(finding.servers().len(), 2, "{finding:?}");
        on_all(&cluster, finding.lines("run")[0]);
    }
    testbed::eventually(|| doctor(&words).exit == 0, "all to be fine");
}

#[test]
fn a_node_that_tells_of_locks_when_it_is_cut_off_and_needs_commands() {
    let node = |command: &str| {
        let server = healthy()
            .config("cluster-enabled", "yes")
            .config("cluster-allow-reads-when-down", "yes")
            .config("rename-command", &format!("{command} OTHER"))
            .start();
        (look(&server), server)
    };
    for command in ["CONFIG", "CLUSTER"] {
        let (report, _server) = node(command);
        assert!(report.one("commands", "warning").seen().contains(command));
    }
    let (report, server) = node("WAIT");
    report
        .one("cluster-reads", "warning")
        .run_first(&mut server.connection());
    testbed::eventually(|| look(&server).bad("cluster-reads").is_empty(), "it");
}

#[test]
fn a_node_without_the_module() {
    let cluster = Cluster::start_with(2, 0, |builder| {
        builder
            .without_module()
            .config("enable-module-command", "yes")
    });
    let path = testbed::module::path().display().to_string();
    cmd!(cluster.node(0).connection(), "MODULE", "LOAD", path).okay();
    let finding = look(cluster.node(0)).one("module", "error");
    assert_eq!(finding.servers(), [cluster.address(1)]);
    finding.run_first(&mut cluster.node(1).connection());
    crate::support::gone(cluster.node(0), "module");
}
