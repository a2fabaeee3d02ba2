//! The trial finds out a worker that does not do as it should. One that does is any real client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use testbed::module;

/// The trial's output for the reference worker with a defect, and whether it passes.
fn judge(defect: &str, scenario: &str) -> (bool, String) {
    let clients = tempfile::tempdir().expect("a folder");
    let folder = clients.path().join("reference/trial");
    fs::create_dir_all(&folder).expect("a folder");
    let start = folder.join("start");
    let script = format!("#!/bin/sh\nexec '{}'\n", env!("CARGO_BIN_EXE_reference"));
    fs::write(&start, script).expect("a script");
    fs::set_permissions(&start, fs::Permissions::from_mode(0o755)).expect("a script");
    let output = Command::new(env!("CARGO_BIN_EXE_trial"))
        .arg("--clients")
        .arg(clients.path())
        .args(["--scenario", scenario])
        .env("REFERENCE_DEFECT", defect)
        .env("REDIS_LOCK_MODULE", module::path())
        .output()
        .expect("the trial");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

#[test]
fn each_defect_is_found_out() {
    const DEFECTS: [(&str, &str, &str); 19] = [
        ("forgets-release", "ordinary", "alone is held by trial:"),
        (
            "forgets-cancel",
            "cancel-at-grant",
            "who was told that it is not",
        ),
        ("keeps-quiet", "deleted", "the loss of held-0 was not told"),
        ("is-slow", "missing-module", "its limit is"),
        ("knocks", "wrong-password", "connections in two seconds"),
        ("leaks", "growth", "connections"),
        ("makes-up", "crowd", " of key-"),
        ("dies", "ordinary", "has ended by itself"),
        ("forgets-session", "poll-cut", "is not polled again"),
        ("keeps-connection", "poll-taken-over", "is not polled again"),
        ("waits-on", "poll-silent", "the loss of deleted was"),
        ("gives-up", "session-silent", "held was reported as lost"),
        ("keeps-session", "session-killed", "the loss of held was"),
        ("loses-place", "stall-order", "stall-order: FAILED"),
        ("blocks", "frozen-waiter", "acquire taken"),
        (
            "forgets-unfinished",
            "unfinished-release",
            "released is still held",
        ),
        (
            "stays-in-session",
            "refused-release",
            "released is still held",
        ),
        ("leaves-strays", "strays", "stray is still held"),
        ("believes-late", "late-loss", "its loss was reported before"),
    ];
    thread::scope(|scope| {
        for (defect, scenario, why) in DEFECTS {
            scope.spawn(move || {
                let (passed, text) = judge(defect, scenario);
                assert!(!passed && text.contains(why), "{defect}: {text}");
            });
        }
    });
}
