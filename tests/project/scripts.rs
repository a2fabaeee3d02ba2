//! Scripts that judge releases say no where they must.

use super::{script, told};
use std::fs;
use std::process::Command;
use tempfile::TempDir;

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn a_release_needs_its_tag_its_version_and_its_notes() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("CHANGELOG.md");
    let changelog = |text: &str| fs::write(&path, text).expect("a file");
    let release = |step: &str, tag: &str| {
        let output = script(
            &format!("release/{step}.sh"),
            &[tag],
            &[("CHANGELOG", &path)],
        );
        (output.status.success(), told(&output))
    };
    let tag = format!("v{VERSION}");

    changelog("# Changelog\n\n## [Unreleased]\n\n- something\n");
    let (passed, said) = release("check", &tag);
    assert!(!passed && said.contains("no section"), "{said}");

    changelog(&format!(
        "# Changelog\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-01-02\n\n### Added\n\n\
         - [this](docs/this.md), [that](https://a.example/that)\n\n## [0.0.1] - 2025-01-02\n\n- that\n"
    ));
    assert_eq!(release("check", &tag), (true, String::new()));
    let link = format!("https://github.com/redis-lock/redis-lock/blob/{tag}/docs/this.md");
    let notes = format!("### Added\n\n- [this]({link}), [that](https://a.example/that)\n");
    assert_eq!(release("notes", &tag), (true, notes));
    let (passed, said) = release("check", "v99.0.0");
    assert!(!passed && said.contains(VERSION), "{said}");
}

/// The files that the script goes through, as they are here, in a folder of their own.
fn a_copy_of_what_repeats_the_version() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let listed = super::text("scripts/release/versions.txt");
    let listed = listed.lines().filter(|line| !line.starts_with('#'));
    let patterns = listed
        .filter_map(|line| line.split_once("  "))
        .map(|(pattern, _)| pattern);
    let besides = "Cargo.lock fuzz/Cargo.lock scripts/lib.sh scripts/release/version.sh scripts/release/versions.txt";
    let words: Vec<_> = besides.split(' ').chain(patterns).collect();
    let copied = Command::new("sh")
        .args(["-c", "for f in $1; do ! [ -e \"$f\" ] || echo \"$f\"; done | sort -u | tar -cf - -T - | tar -xf - -C \"$2\"", "sh"])
        .arg(words.join(" "))
        .arg(folder.path())
        .current_dir(testbed::module::root())
        .output()
        .expect("a shell");
    assert!(copied.status.success(), "{}", told(&copied));
    folder
}

#[test]
fn the_version_is_changed_in_every_file_that_repeats_it() {
    let folder = a_copy_of_what_repeats_the_version();
    let version = |words: &[&str]| {
        let output = Command::new(folder.path().join("scripts/release/version.sh"))
            .args(words)
            .output()
            .expect("a script that can be run");
        (output.status.success(), told(&output))
    };
    assert_eq!(version(&[]), (true, format!("{VERSION}\n")));
    assert_eq!(version(&["check"]), (true, String::new()));
    assert!(!version(&["set", "next"]).0);

    assert_eq!(version(&["set", "91.82.73"]), (true, String::new()));
    assert_eq!(version(&[]), (true, "91.82.73\n".to_owned()));
    assert_eq!(version(&["check"]), (true, String::new()));
    let lock = fs::read_to_string(folder.path().join("Cargo.lock")).expect("a lock file");
    assert!(lock.contains("name = \"redis-lock\"\nversion = \"91.82.73\"\n"));
    // Of others' packages, none.
    let others = lock
        .split("[[package]]")
        .filter(|package| package.contains("\nsource = "));
    assert!(others.count() > 50);
    assert!(
        lock.split("[[package]]")
            .all(|package| !package.contains("91.82.73") || !package.contains("\nsource = "))
    );

    // Nor where it is the same by chance.
    let path = folder.path().join("clients/node/package-lock.json");
    let lock = fs::read_to_string(&path).expect("a lock file");
    let theirs = "\n    \"node_modules/theirs\": {\n      \"version\": \"91.82.73\",\n";
    fs::write(&path, format!("{lock}{theirs}")).expect("a lock file");
    assert_eq!(version(&["set", "91.82.74"]), (true, String::new()));
    let changed = fs::read_to_string(&path).expect("a lock file");
    assert!(changed.ends_with(theirs) && changed.contains("91.82.74"));
    assert_eq!(version(&["set", "91.82.73"]), (true, String::new()));

    let path = folder.path().join("clients/python/pyproject.toml");
    let changed = fs::read_to_string(&path)
        .expect("a file")
        .replace("91.82.73", "91.82.72");
    fs::write(&path, changed).expect("a file");
    let (passed, said) = version(&["check"]);
    assert!(!passed && said.contains("pyproject.toml has no"), "{said}");
}
