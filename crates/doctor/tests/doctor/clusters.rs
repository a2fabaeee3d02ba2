//! A cluster is checked from any of its nodes.

use crate::support::{Doctor, Finding, sound};
use testbed::{Cluster, eventually};

fn on_all(cluster: &Cluster, finding: &Finding) {
    for node in cluster.nodes().iter().filter(|node| node.is_up()) {
        finding.run_first(node);
    }
}

#[test]
fn a_cluster_with_default_settings_and_with_a_part_that_is_down() {
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
    // With this setting the node serves its own slots again, although others are missing.
    on_all(&cluster, &coverage);
    for check in ["cluster-coverage", "cluster-state", "writes"] {
        doctor.gone(check);
    }
    doctor.looks().misses_a_server();
    for number in [1, 4] {
        cluster.node_mut(number).restart();
    }
    cluster.wait_until_whole();
    // The restarted nodes have lost these settings.
    for check in ["token-lead", "cluster-coverage"] {
        let finding = doctor.comes(check, "");
        assert_eq!(finding.servers().len(), 2, "{finding:?}");
        on_all(&cluster, &finding);
    }
    eventually(|| doctor.looks().exit == 0, "all to be fine");
}
