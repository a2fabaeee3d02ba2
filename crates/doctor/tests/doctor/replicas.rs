//! A primary and its replicas.

use crate::support::{Doctor, bare, healthy};
use testbed::clock::SteppedClock;
use testbed::{Builder, Expect, Server, cmd, module, run};

fn replica_of(primary: &Server, settings: Builder) -> Server {
    let address = format!("127.0.0.1 {}", primary.port());
    let replica = settings.config("replicaof", &address).start();
    replica.wait_for_link();
    replica
}

fn both() -> (Server, Server) {
    let primary = healthy().start();
    let replica = replica_of(&primary, healthy());
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
        let roles = report.servers().iter().map(|one| one["role"].as_str());
        let mut roles: Vec<_> = roles.collect();
        roles.sort_unstable();
        assert_eq!(roles, [Some("primary"), Some("replica")]);
    }
}

/// The replica was in sync before the module was loaded on the primary.
#[test]
fn a_replica_without_the_module() {
    let primary = bare().start();
    let replica = replica_of(&primary, bare());
    let path = module::path().display().to_string();
    cmd!(primary.connection(), "MODULE", "LOAD", path).okay();
    let doctor = Doctor::of(&primary);
    let finding = doctor.one("module", "error");
    assert_eq!(finding.servers(), [format!("127.0.0.1:{}", replica.port())]);
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
    let replica = replica_of(&primary, healthy().config("replica-read-only", "no"));
    let other = replica_of(&primary, healthy());
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
        assert_eq!(finding.servers().len(), count, "{finding:?}");
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
        assert_eq!(finding.0["severity"], severity, "{finding:?}");
        assert!(finding.lines("shell")[0].contains("set-ntp"), "{finding:?}");
        let here = doctor.one("clock-here", "warning");
        assert_eq!(here.servers(), finding.servers());
        // Correct the clock, as NTP would.
        replica.step(0);
        doctor.gone("clock-replica");
        doctor.gone("clock-here");
    }
}
