//! Failed saves, and the writes that the server then refuses.

use crate::support::{Doctor, healthy, starter};
use std::fs;
use std::process::Command;
use testbed::{Expect, cmd, eventually, run};

#[test]
fn a_background_save_that_fails() {
    let server = healthy()
        .config("save", "900 1")
        .config("appendonly", "no")
        .start();
    let mut c = server.connection();
    // The save fails, because a file cannot replace a folder.
    let in_the_way = server.dir().join("dump.rdb");
    fs::create_dir(&in_the_way).expect("a folder");
    cmd!(c, "BGSAVE").value();
    let failed = || server.info_field("persistence", "rdb_last_bgsave_status") == "err";
    eventually(failed, "the save to fail");
    let doctor = Doctor::of(&server);
    let report = doctor.looks();
    let finding = report.one("save", "error");
    report.one("writes", "error").says("MISCONF");
    run(&mut c, finding.lines("run")[1]).okay();
    doctor.gone("writes");
    doctor.one("save", "warning");
    fs::remove_dir(&in_the_way).expect("the folder");
    finding.run_first(&server);
    doctor.gone("save");
}

/// A limit on the size of files simulates a full disk.
#[test]
fn an_aof_that_cannot_be_written() {
    let mut server = healthy().start();
    let program = starter(&server, "trap '' XFSZ\nulimit -S -f 4000");
    server
        .reconfigure(|settings| settings.program(&program).config("appendfsync", "everysec"))
        .restart();
    let mut c = server.connection();
    let full = || {
        let _ = cmd!(c, "SET", "k", "x".repeat(500_000));
        server.info_field("persistence", "aof_last_write_status") == "err"
    };
    eventually(full, "the AOF to reach its limit");
    let doctor = Doctor::of(&server);
    let report = doctor.looks();
    let room = report.one("aof", "error");
    assert!(room.lines("do")[0].contains("free disk space"), "{room:?}");
    report.one("writes", "error");
    let made = Command::new("prlimit")
        .args(["--pid", &server.pid().to_string(), "--fsize=unlimited"])
        .status();
    assert!(made.expect("prlimit starts").success());
    doctor.gone("aof");
    doctor.gone("writes");
}
