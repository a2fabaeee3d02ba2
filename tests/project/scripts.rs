//! Scripts that judge releases say no where they must.

use super::{script, told};
use std::fs;
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
