//! A primary and its replicas.

use crate::support::{Doctor, bare, healthy};
use std::path::{Path, PathBuf};
use std::process::Command;
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

fn load(server: &Server, module: &Path) {
    let path = module.display().to_string();
    cmd!(server.connection(), "MODULE", "LOAD", path).okay();
}

#[test]
fn a_primary_and_its_replica_are_looked_at_from_either() {
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

/// It was in step before the module was loaded on the primary.
#[test]
fn a_replica_without_the_module() {
    let primary = bare().start();
    let replica = replica_of(&primary, bare());
    load(&primary, module::path());
    let doctor = Doctor::of(&primary);
    let finding = doctor.one("module", "error");
    assert_eq!(finding.servers(), [format!("127.0.0.1:{}", replica.port())]);
    finding.run_first(&replica);
    doctor.gone("module");
}

/// A module that calls itself lock, of version 0.1.0, stands for an older build: it was loaded when the replica
/// was in step, as the primary's was.
#[test]
fn a_replica_with_an_older_version() {
    let primary = bare().start();
    let mut replica = replica_of(&primary, bare());
    load(&primary, module::path());
    load(&replica, &older(replica.dir()));
    let doctor = Doctor::of(&primary);
    let finding = doctor.one("version", "error").says("0.1.0");
    let line = finding.lines("conf")[0];
    assert!(line.starts_with("loadmodule "), "{finding:?}");
    replica.reconfigure(Builder::with_module).restart();
    replica.wait_for_link();
    doctor.gone("version");
}

fn older(folder: &Path) -> PathBuf {
    let library = folder.join("older.so");
    let compiled = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()))
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/doctor/older.c"))
        .status();
    assert!(compiled.expect("a C compiler starts").success());
    library
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
fn a_replica_that_hangs() {
    let (primary, replica) = both();
    replica.signal("STOP");
    let doctor = Doctor::of(&primary);
    doctor.comes("lag", "last heard");
    doctor.looks().misses_a_server();
    replica.signal("CONT");
    doctor.gone("lag");
    doctor.looks().fine();
}

#[test]
fn a_replica_that_takes_writes() {
    let primary = healthy().start();
    let replica = replica_of(&primary, healthy().config("replica-read-only", "no"));
    let doctor = Doctor::of(&primary);
    doctor.one("read-only", "warning").run_first(&replica);
    doctor.gone("read-only");
}

#[test]
fn a_primary_that_goes_on_alone() {
    let primary = healthy().start();
    let _replicas = [(); 2].map(|()| replica_of(&primary, healthy()));
    let doctor = Doctor::of(&primary);
    doctor.one("enough-replicas", "advice").run_first(&primary);
    doctor.gone("enough-replicas");
}

#[test]
fn what_is_not_replicated_differs() {
    let (primary, replica) = both();
    let mut c = primary.connection();
    run(&mut c, "CONFIG SET lock.default-lease-ms 40000").okay();
    run(&mut c, "ACL SETUSER app on >secret ~lock:* +@all").okay();
    let doctor = Doctor::of(&primary);
    let report = doctor.looks();
    for (check, severity) in [("same-settings", "warning"), ("same-users", "error")] {
        report.one(check, severity).run_first(&replica);
        doctor.gone(check);
    }
}
