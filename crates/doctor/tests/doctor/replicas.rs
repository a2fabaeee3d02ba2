//! A primary and its replicas.

use crate::support::{comes, doctor, gone, gone_by, healthy, look};
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{Builder, Expect, Server, cmd, module, run};

fn replica_of(primary: &Server, settings: impl FnOnce(Builder) -> Builder) -> Server {
    let address = format!("127.0.0.1 {}", primary.port());
    let replica = settings(healthy().config("replicaof", &address)).start();
    replica.wait_for_link();
    replica
}

fn port(server: &Server) -> [String; 2] {
    ["--port".to_owned(), server.port().to_string()]
}

#[test]
fn a_primary_and_its_replica_are_looked_at_from_either() {
    let primary = healthy().start();
    let replica = replica_of(&primary, |settings| settings);
    for server in [&primary, &replica] {
        gone(server, "lag");
        let report = look(server);
        report.fine();
        let servers = report.json["servers"].as_array().expect("servers");
        let roles: Vec<_> = servers.iter().map(|one| one["role"].as_str()).collect();
        assert!(roles.contains(&Some("primary")) && roles.contains(&Some("replica")));
        assert_eq!(roles.len(), 2);
    }
}

/// It was in step before the module was loaded on the primary.
#[test]
fn a_replica_without_the_module() {
    let bare = || {
        Server::builder()
            .without_module()
            .config("enable-module-command", "yes")
    };
    let primary = bare().start();
    let mut c = primary.connection();
    let replica = primary
        .replica_with(|_| bare().config("replicaof", &format!("127.0.0.1 {}", primary.port())));
    cmd!(c, "MODULE", "LOAD", module::path().display().to_string()).okay();
    let finding = look(&primary).one("module", "error");
    assert_eq!(finding.servers(), [format!("127.0.0.1:{}", replica.port())]);
    finding.run_first(&mut replica.connection());
    gone(&primary, "module");
}

/// A module that calls itself lock, of version 0.1.0, stands for an older build: it was loaded when the replica
/// was in step, as the primary's was.
#[test]
fn a_replica_with_an_older_version() {
    let bare = || {
        Server::builder()
            .without_module()
            .config("enable-module-command", "yes")
    };
    let primary = bare().start();
    let mut replica = primary
        .replica_with(|_| bare().config("replicaof", &format!("127.0.0.1 {}", primary.port())));
    let new = module::path().display().to_string();
    cmd!(primary.connection(), "MODULE", "LOAD", &new).okay();
    let old = older(replica.dir()).display().to_string();
    cmd!(replica.connection(), "MODULE", "LOAD", old).okay();
    let finding = look(&primary).one("version", "error");
    assert!(finding.seen().contains("0.1.0"), "{finding:?}");
    assert!(
        finding.lines("conf")[0].starts_with("loadmodule "),
        "{finding:?}"
    );
    replica.reconfigure(Builder::with_module).restart();
    replica.wait_for_link();
    gone(&primary, "version");
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
    let primary = healthy().start();
    let replica = replica_of(&primary, |settings| settings);
    let mut c = primary.connection();
    cmd!(c, "CONFIG", "SET", "requirepass", "secret").okay();
    cmd!(c, "CLIENT", "KILL", "TYPE", "replica").int();
    let words = port(&replica);
    let words = [words[0].as_str(), &words[1]];
    let finding = comes(&words, "link");
    assert!(
        finding.lines("do")[0].contains("masterauth PASSWORD"),
        "{finding:?}"
    );
    // The primary is not looked at without a login.
    let report = doctor(&words);
    assert!(
        report.unseen().iter().any(|one| one.0["check"] == "reach"),
        "{:#}",
        report.json
    );
    run(&mut replica.connection(), "CONFIG SET masterauth secret").okay();
    gone(&replica, "link");
}

#[test]
fn a_replica_that_hangs() {
    let primary = healthy().start();
    let replica = replica_of(&primary, |settings| settings);
    replica.signal("STOP");
    let words = port(&primary);
    let words = [words[0].as_str(), &words[1]];
    let finding = comes(&words, "lag");
    assert!(finding.seen().contains("last heard"), "{finding:?}");
    let unseen = doctor(&words).unseen();
    assert!(
        unseen.iter().any(|one| one.0["check"] == "reach"),
        "{unseen:?}"
    );
    replica.signal("CONT");
    gone(&primary, "lag");
    assert_eq!(doctor(&words).exit, 0);
}

#[test]
fn a_replica_that_takes_writes() {
    let primary = healthy().start();
    let replica = replica_of(&primary, |settings| {
        settings.config("replica-read-only", "no")
    });
    let finding = look(&primary).one("read-only", "warning");
    finding.run_first(&mut replica.connection());
    gone(&primary, "read-only");
}

#[test]
fn a_primary_that_goes_on_alone() {
    let primary = healthy().start();
    let _replicas = [(); 2].map(|()| replica_of(&primary, |settings| settings));
    let finding = look(&primary).one("enough-replicas", "advice");
    finding.run_first(&mut primary.connection());
    gone(&primary, "enough-replicas");
}

#[test]
fn what_is_not_replicated_differs() {
    let primary = healthy().start();
    let replica = replica_of(&primary, |settings| settings);
    let mut c = primary.connection();
    run(&mut c, "CONFIG SET lock.default-lease-ms 40000").okay();
    run(&mut c, "ACL SETUSER app on >secret ~lock:* +@all").okay();
    let report = look(&primary);
    let mut to = replica.connection();
    report.one("same-settings", "warning").run_first(&mut to);
    report.one("same-users", "error").run_first(&mut to);
    let words = port(&primary);
    gone_by(&[&words[0], &words[1]], "same-settings");
    gone_by(&[&words[0], &words[1]], "same-users");
}
