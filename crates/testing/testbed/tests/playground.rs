//! The playground, as `make cluster` and `make sentinel` start it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The processes that this one has started, with their folders.
fn children(pid: u32) -> Vec<(PathBuf, PathBuf)> {
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.expect("the children of a process");
    let process = |child: &str| {
        let process = Path::new("/proc").join(child);
        let folder = fs::read_link(process.join("cwd")).expect("a folder");
        (process, folder)
    };
    list.split_whitespace().map(process).collect()
}

#[test]
fn it_leaves_no_process_and_no_folder_behind() {
    for (what, signal) in [("cluster", "INT"), ("sentinel", "TERM")] {
        let mut playground = Command::new(env!("CARGO_BIN_EXE_playground"))
            .arg(what)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the playground");
        let out = BufReader::new(playground.stdout.take().expect("its output"));
        let mut lines = out.lines().map(|line| line.expect("text"));
        assert!(
            lines.any(|line| line.starts_with("Ctrl-C stops")),
            "{what} comes up"
        );
        let children = children(playground.id());
        assert_eq!(children.len(), 6, "{what}");
        let sent = Command::new("sh")
            .args(["-c", &format!("kill -{signal} {}", playground.id())])
            .status();
        assert!(sent.expect("sh").success());
        assert!(playground.wait().expect("its end").success(), "{what}");
        for (process, folder) in children {
            assert!(!process.exists() && !folder.exists(), "{what}: {folder:?}");
        }
    }
}
