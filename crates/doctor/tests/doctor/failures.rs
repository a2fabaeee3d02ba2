//! Saves that fail, and writes that are paused or refused.

use crate::support::{comes, gone, healthy, look};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use testbed::{Expect, Talk, cmd, eventually};

#[test]
fn a_background_save_that_fails() {
    let server = healthy()
        .config("save", "900 1")
        .config("appendonly", "no")
        .start();
    let mut c = server.connection();
    // A file cannot take the place of a folder.
    let in_the_way = server.dir().join("dump.rdb");
    fs::create_dir(&in_the_way).expect("a folder");
    cmd!(c, "BGSAVE").value();
    let failed = || server.info_field("persistence", "rdb_last_bgsave_status") == "err";
    eventually(failed, "the save to fail");
    let report = look(&server);
    let finding = report.one("save", "error");
    let writes = report.one("writes", "error");
    assert!(writes.seen().contains("MISCONF"), "{writes:?}");
    let go_on = finding.lines("run")[1];
    c.send(&testbed::line(go_on)).okay();
    gone(&server, "writes");
    look(&server).one("save", "warning");
    fs::remove_dir(&in_the_way).expect("the folder");
    finding.run_first(&mut c);
    gone(&server, "save");
}

/// A limit on the size of files stands for a full disk.
#[test]
fn an_aof_that_cannot_be_written() {
    let mut server = healthy().start();
    let program = server.dir().join("limited");
    let real = testbed::module::server_program();
    let script = format!(
        "#!/bin/sh\ntrap '' XFSZ\nulimit -S -f 4000\nexec {} \"$@\"\n",
        real.display()
    );
    fs::write(&program, script).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    server
        .reconfigure(|settings| settings.program(&program).config("appendfsync", "everysec"))
        .restart();
    let mut c = server.connection();
    let full = || {
        let _ = cmd!(c, "SET", "k", "x".repeat(500_000));
        server.info_field("persistence", "aof_last_write_status") == "err"
    };
    eventually(full, "the AOF to reach its limit");
    let report = look(&server);
    let finding = report.one("aof", "error");
    assert!(
        finding.lines("do")[0].contains("free disk space"),
        "{finding:?}"
    );
    report.one("writes", "error");
    let made = Command::new("prlimit")
        .args(["--pid", &server.pid().to_string(), "--fsize=unlimited"])
        .status();
    assert!(made.expect("prlimit starts").success());
    gone(&server, "aof");
    gone(&server, "writes");
}

#[test]
fn writes_that_are_paused() {
    let server = healthy().start();
    let mut c = server.connection();
    cmd!(c, "CLIENT", "PAUSE", 600_000, "WRITE").okay();
    let finding = look(&server).one("writes", "error");
    finding.run_first(&mut c);
    gone(&server, "writes");
}

#[test]
fn a_failover_that_hangs() {
    let server = healthy().start();
    let replica = server
        .replica_with(|_| healthy().config("replicaof", &format!("127.0.0.1 {}", server.port())));
    let mut c = server.connection();
    let port = replica.port().to_string();
    replica.signal("STOP");
    cmd!(c, "SET", "k", 1).okay();
    cmd!(c, "FAILOVER", "TO", "127.0.0.1", port).okay();
    let words = ["--port", &server.port().to_string()];
    let finding = comes(&words, "writes");
    assert!(finding.seen().contains("waiting-for-sync"), "{finding:?}");
    finding.run_all(&mut c);
    replica.signal("CONT");
    gone(&server, "writes");
}

#[test]
fn too_few_replicas_for_a_write() {
    let server = healthy().config("min-replicas-to-write", "1").start();
    let finding = look(&server).one("writes", "error");
    assert!(finding.seen().contains("NOREPLICAS"), "{finding:?}");
    finding.run_first(&mut server.connection());
    gone(&server, "writes");
}
