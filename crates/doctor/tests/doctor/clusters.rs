//! A cluster, from any of its nodes.

use crate::support::{Doctor, Finding, healthy, sound};
use testbed::{Cluster, Expect, cmd, eventually, module};

fn on_all(cluster: &Cluster, finding: &Finding) {
    for node in cluster.nodes().iter().filter(|node| node.is_up()) {
        finding.run_first(node);
    }
}

#[test]
fn a_cluster_as_it_comes_and_with_a_part_that_is_down() {
    let mut cluster = Cluster::start_with(3, 1, sound);
    let report = Doctor::of(cluster.node(4)).looks();
    assert_eq!(report.servers().len(), 6, "{:#}", report.json);
    let lead = report.one("token-lead", "warning");
    let coverage = report.one("cluster-coverage", "advice");
    for finding in [&lead, &coverage] {
        assert_eq!(finding.servers().len(), 6, "{finding:?}");
    }
    on_all(&cluster, &lead);

    let doctor = Doctor::of(cluster.node(0));
    doctor.gone("token-lead");
    cluster.node_mut(1).kill9();
    cluster.node_mut(4).kill9();
    doctor.comes("cluster-state", "CLUSTERDOWN");
    // Its own slots are served again as soon as the others need not be.
    on_all(&cluster, &coverage);
    for check in ["cluster-coverage", "cluster-state", "writes"] {
        doctor.gone(check);
    }
    doctor.looks().misses_a_server();
    for number in [1, 4] {
        cluster.node_mut(number).restart();
    }
    cluster.wait_until_whole();
    // They have forgotten what they were told.
    for check in ["token-lead", "cluster-coverage"] {
        let finding = doctor.comes(check, "");
        assert_eq!(finding.servers().len(), 2, "{finding:?}");
        on_all(&cluster, &finding);
    }
    eventually(|| doctor.looks().exit == 0, "all to be fine");
}

#[test]
fn a_node_that_tells_of_locks_when_it_is_cut_off_and_needs_commands() {
    let node = |command: &str| {
        healthy()
            .config("cluster-enabled", "yes")
            .config("cluster-allow-reads-when-down", "yes")
            .config("rename-command", &format!("{command} OTHER"))
            .start()
    };
    for command in ["CONFIG", "CLUSTER"] {
        let server = node(command);
        let finding = Doctor::of(&server).one("commands", "warning");
        finding.says(command);
    }
    let server = node("WAIT");
    let doctor = Doctor::of(&server);
    doctor.one("cluster-reads", "warning").run_first(&server);
    doctor.gone("cluster-reads");
}

#[test]
fn a_node_without_the_module() {
    let cluster = Cluster::start_with(2, 0, |builder| {
        let builder = builder.without_module();
        builder.config("enable-module-command", "yes")
    });
    let path = module::path().display().to_string();
    cmd!(cluster.node(0).connection(), "MODULE", "LOAD", path).okay();
    let doctor = Doctor::of(cluster.node(0));
    let finding = doctor.one("module", "error");
    assert_eq!(finding.servers(), [cluster.address(1)]);
    finding.run_first(cluster.node(1));
    doctor.gone("module");
}
