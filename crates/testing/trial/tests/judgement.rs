//! The trial finds out a worker that does not do as it should: that of the Rust client, whose lines a filter changes. How
//! a client can be wrong otherwise, the mutants of crates/testing/faults show. One that is right is any real client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::thread;
use testbed::module;

/// The trial's output for this worker, a command of the shell with the real one as `$worker`, and whether it passes.
fn judge(worker: &str, scenario: &str) -> (bool, String) {
    let clients = tempfile::tempdir().expect("a folder");
    let start = clients.path().join("wrong/trial/start");
    fs::create_dir_all(start.with_file_name("")).expect("a folder");
    let real = module::root().join("clients/rust/trial/start");
    let script = format!("#!/bin/sh\nworker='{}'\n{worker}\n", real.display());
    fs::write(&start, script).expect("a script");
    fs::set_permissions(&start, fs::Permissions::from_mode(0o755)).expect("a script");
    let output = Command::new(env!("CARGO_BIN_EXE_trial"))
        .arg("--clients")
        .arg(clients.path())
        .args(["--scenario", scenario])
        .env("REDIS_LOCK_MODULE", module::path())
        .output()
        .expect("the trial");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    (output.status.success(), text)
}

#[test]
fn a_wrong_worker_is_found_out() {
    const WRONG: [(&str, &str, &str); 2] = [
        (
            r#""$worker" | grep --line-buffered -v '"event":"lost"'"#,
            "deleted",
            "the loss of held-0 was not told",
        ),
        (
            r#"sed -u 10q | "$worker""#,
            "ordinary",
            "has ended by itself",
        ),
    ];
    thread::scope(|scope| {
        for (worker, scenario, why) in WRONG {
            scope.spawn(move || {
                let (passed, text) = judge(worker, scenario);
                assert!(!passed && text.contains(why), "{worker}: {text}");
            });
        }
    });
}
