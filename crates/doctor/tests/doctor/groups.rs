//! Servers that belong together: a primary and its replicas, a cluster, and servers that a Sentinel watches.

use crate::support::{Doctor, Finding, bare, healthy, sound};
use std::time::Duration;
use testbed::clock::SteppedClock;
use testbed::{Cluster, Expect, Sentinels, Server, cmd, eventually, module, run};

fn both() -> (Server, Server) {
    let primary = healthy().start();
    let replica = primary.replica_with(sound);
    (primary, replica)
}

#[test]
fn a_primary_and_its_replica_are_found_from_either() {
    let (primary, replica) = both();
    for server in [&primary, &replica] {
        let doctor = Doctor::of(server);
        doctor.gone("lag");
        let report = doctor.looks();
        report.fine();
        let roles = report.servers.iter().map(|one| one["role"].as_str());
        let mut roles: Vec<_> = roles.collect();
        roles.sort_unstable();
        assert_eq!(roles, [Some("primary"), Some("replica")]);
    }
}

/// The replica was in sync before the module was loaded on the primary.
#[test]
fn a_replica_without_the_module() {
    let primary = bare(Server::builder()).start();
    let replica = primary.replica_with(bare);
    let path = module::path().display().to_string();
    cmd!(primary.connection(), "MODULE", "LOAD", path).okay();
    let doctor = Doctor::of(&primary);
    let finding = doctor.looks().one("module", "error");
    assert_eq!(finding.servers, [format!("127.0.0.1:{}", replica.port())]);
    finding.run_first(&replica);
    doctor.gone("module");
}

#[test]
fn a_replica_that_is_cut_off() {
    let (primary, replica) = both();
    let mut c = primary.connection();
    cmd!(c, "CONFIG", "SET", "requirepass", "secret").okay();
    cmd!(c, "CLIENT", "KILL", "TYPE", "replica").int();
    let doctor = Doctor::of(&replica);
    let finding = doctor.comes("link", "");
    let login = finding.lines("do")[0];
    assert!(login.contains("masterauth PASSWORD"), "{finding:?}");
    // The primary is not checked without a login.
    doctor.looks().misses_a_server();
    run(&mut replica.connection(), "CONFIG SET masterauth secret").okay();
    doctor.gone("link");
}

#[test]
fn a_replica_that_hangs_also_in_a_failover() {
    let (primary, replica) = both();
    replica.signal("STOP");
    let doctor = Doctor::of(&primary);
    doctor.comes("lag", "last heard");
    doctor.looks().misses_a_server();
    let mut c = primary.connection();
    cmd!(c, "SET", "k", 1).okay();
    let port = replica.port().to_string();
    cmd!(c, "FAILOVER", "TO", "127.0.0.1", port).okay();
    let finding = doctor.comes("writes", "waiting-for-sync");
    finding.run_all(&primary);
    replica.signal("CONT");
    for check in ["writes", "lag"] {
        doctor.gone(check);
    }
    doctor.looks().fine();
}

#[test]
fn a_primary_without_its_replica_and_settings_that_are_not_replicated() {
    let primary = healthy().start();
    let replica = primary.replica_with(|it| sound(it).config("replica-read-only", "no"));
    let other = primary.replica_with(sound);
    let mut c = primary.connection();
    run(&mut c, "CONFIG SET lock.default-lease-ms 40000").okay();
    run(&mut c, "ACL SETUSER app on >secret ~lock:* +@all").okay();
    let doctor = Doctor::of(&primary);
    let report = doctor.looks();
    let alone = report.one("enough-replicas", "advice");
    alone.run_first(&primary);
    for (check, severity, count) in [
        ("read-only", "warning", 1),
        ("same-settings", "warning", 2),
        ("same-users", "error", 2),
    ] {
        let finding = report.one(check, severity);
        assert_eq!(finding.servers.len(), count, "{finding:?}");
        finding.run_first(&replica);
        finding.run_first(&other);
        doctor.gone(check);
    }
    doctor.gone("enough-replicas");
}

/// Clocks that are wrong, by libfaketime.
#[test]
fn a_replica_and_a_server_whose_clocks_are_wrong() {
    let primary = healthy().start();
    let address = format!("127.0.0.1 {}", primary.port());
    let replica = match SteppedClock::start(healthy().config("replicaof", &address)) {
        Ok(replica) => replica,
        Err(why) => {
            println!("left out: {why}");
            return;
        }
    };
    replica.server.wait_for_link();
    let doctor = Doctor::of(&primary);
    doctor.gone("clock-replica");
    for (seconds, severity) in [(2, "warning"), (-2, "warning"), (-60, "error")] {
        replica.step(seconds);
        let finding = doctor.comes("clock-replica", "");
        assert_eq!(finding.severity, severity, "{finding:?}");
        assert!(finding.lines("shell")[0].contains("set-ntp"), "{finding:?}");
        let here = doctor.looks().one("clock-here", "warning");
        assert_eq!(here.servers, finding.servers);
        // Correct the clock, as NTP would.
        replica.step(0);
        doctor.gone("clock-replica");
        doctor.gone("clock-here");
    }
}

fn on_all(servers: &[Server], finding: &Finding) {
    for server in servers.iter().filter(|server| server.is_up()) {
        finding.run_first(server);
    }
}

/// A cluster is checked from any of its nodes.
#[test]
fn a_cluster_with_default_settings_and_with_a_part_that_is_down() {
    let mut cluster = Cluster::start_with(3, 1, sound);
    let report = Doctor::of(cluster.node(4)).looks();
    assert_eq!(report.servers.len(), 6, "{report:?}");
    let lead = report.one("token-lead", "warning");
    let coverage = report.one("cluster-coverage", "advice");
    for finding in [&lead, &coverage] {
        assert_eq!(finding.servers.len(), 6, "{finding:?}");
    }
    on_all(cluster.nodes(), &lead);

    let doctor = Doctor::of(cluster.node(0));
    doctor.gone("token-lead");
    cluster.node_mut(1).kill9();
    cluster.node_mut(4).kill9();
    doctor.comes("cluster-state", "CLUSTERDOWN");
    // With this setting the node serves its own slots again, although others are missing.
    on_all(cluster.nodes(), &coverage);
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
        assert_eq!(finding.servers.len(), 2, "{finding:?}");
        on_all(cluster.nodes(), &finding);
    }
    eventually(|| doctor.looks().exit == 0, "all to be fine");
}

#[test]
fn sentinels_that_are_too_hasty_or_too_few() {
    let mut all = Sentinels::builder(1, 3)
        .down_after(Duration::from_millis(1500))
        .start_with(sound);
    let doctor = Doctor::of(&all.sentinels()[0]);
    let report = doctor.looks();
    assert_eq!(report.servers.len(), 2);
    let mut c = all.sentinels()[0].connection();

    // One fix makes the lead shorter than a failover, the other makes the Sentinel wait longer.
    on_all(all.servers(), &report.one("token-lead", "warning"));
    doctor.gone("token-lead");
    let hasty = report.one("sentinel", "warning");
    hasty.run_first(&all.sentinels()[0]);
    doctor.gone("sentinel");

    run(&mut c, "SENTINEL SET lock down-after-milliseconds 60000").okay();
    on_all(all.servers(), &doctor.comes("lease", ""));
    doctor.gone("lease");
    run(&mut c, "SENTINEL SET lock down-after-milliseconds 5000").okay();

    for number in [1, 2] {
        all.sentinel_mut(number).kill9();
    }
    doctor.comes("sentinel", "NOQUORUM");
    for number in [1, 2] {
        all.sentinel_mut(number).restart();
    }
    doctor.gone("sentinel");
    assert_eq!(doctor.with(&["--name", "other"]).looks().exit, 3);
}

/// The servers have users, the Sentinels have none.
#[test]
fn servers_behind_a_sentinel_have_a_login_of_their_own() {
    let all = Sentinels::start(0, 1);
    let mut c = all.server(0).connection();
    run(&mut c, "ACL SETUSER other on >secret ~* &* +@all").okay();
    run(&mut c, "ACL SETUSER default >another").okay();
    let doctor = Doctor::of(&all.sentinels()[0]);
    assert_eq!(doctor.looks().exit, 3);
    let report = doctor.with(&["--servers-login", "other:secret"]).looks();
    assert!(report.error.is_none(), "{report:?}");
    assert_eq!(report.servers[0]["role"], "primary");
}
