//! Scripts that judge commits and releases say no where they must.

use super::{script, told};
use std::fs;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn git(folder: &Path, words: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b.example"])
        .args(words)
        .current_dir(folder)
        .output()
        .expect("git");
    assert!(output.status.success(), "{}", told(&output));
}

fn commit(folder: &Path, subject: &str) {
    git(
        folder,
        &["commit", "--quiet", "--allow-empty", "--message", subject],
    );
}

#[test]
fn subjects_have_72_characters_at_most() {
    if Command::new("git").arg("--version").output().is_err() {
        println!("skipped: no git here, and the script leaves subjects out too");
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let folder = folder.path();
    let judged = |words: &[&str]| {
        let output = script("subjects.sh", words, &[("SUBJECTS_OF", folder)]);
        (output.status.success(), told(&output))
    };
    git(folder, &["init", "--quiet", "--initial-branch", "main"]);
    commit(folder, &"x".repeat(73));
    assert!(!judged(&[]).0, "the last commit of the main branch");

    // Characters count, not bytes, nor the body.
    commit(folder, &format!("{}\n\n{}", "ö".repeat(72), "x".repeat(80)));
    assert_eq!(judged(&[]), (true, String::new()));

    git(folder, &["checkout", "--quiet", "-b", "work"]);
    commit(folder, &"y".repeat(73));
    commit(folder, "short");
    let (passed, said) = judged(&[]);
    assert!(
        !passed && said.contains("73 characters") && said.contains("yyy"),
        "{said}"
    );
    assert!(!said.contains("xxx"), "on the main branch already: {said}");

    assert!(!judged(&["HEAD~2"]).0);
    assert!(judged(&["HEAD~1"]).0);
    let unknown = "0".repeat(40);
    assert!(!judged(&[&unknown]).0, "as if none were given");
}

#[test]
fn a_release_needs_its_tag_its_version_and_its_notes() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("CHANGELOG.md");
    let changelog = |text: &str| fs::write(&path, text).expect("a file");
    let release = |step: &str, tag: &str| {
        let output = script("release.sh", &[step, tag], &[("CHANGELOG", &path)]);
        (output.status.success(), told(&output))
    };
    let tag = format!("v{VERSION}");

    changelog("# Changelog\n\n## [Unreleased]\n\n- something\n");
    let (passed, said) = release("check", &tag);
    assert!(!passed && said.contains("no section"), "{said}");

    changelog(&format!(
        "# Changelog\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-01-02\n\n### Added\n\n- this\n\n\
         ## [0.0.1] - 2025-01-02\n\n- that\n"
    ));
    assert_eq!(release("check", &tag), (true, String::new()));
    assert_eq!(
        release("notes", &tag),
        (true, "### Added\n\n- this\n".to_owned())
    );
    let (passed, said) = release("check", "v99.0.0");
    assert!(!passed && said.contains(VERSION), "{said}");
}
