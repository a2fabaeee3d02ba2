//! The version stands in `[workspace.package]`; all else inherits it, is made of it or fits it. Scripts that judge
//! releases say no where they must.

use super::{named, script, text, told};
use std::fs;
use tempfile::TempDir;
use testbed::module::root;
use testbed::{Expect, Server, run};

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[test]
fn every_crate_inherits_the_version() {
    let manifests = named("Cargo.toml", root());
    assert!(manifests.len() > 5, "{manifests:?}");
    for path in manifests {
        let manifest = text(&path);
        let package = manifest.split("[package]\n").nth(1).unwrap_or_default();
        let package = package.split("\n[").next().unwrap_or_default();
        let own = package.lines().find(|line| line.starts_with("version"));
        // The fuzz targets are outside the workspace, and need none.
        let inherits = matches!(own, None | Some("version.workspace = true"));
        assert!(inherits, "{}: {own:?}", path.display());
    }
}

#[test]
fn the_server_is_told_the_version() {
    let server = Server::start();
    let modules = run(&mut server.connection(), "INFO modules").text();
    let told = modules
        .split("name=lock,ver=")
        .nth(1)
        .and_then(|rest| rest.split(',').next()?.parse::<u32>().ok())
        .unwrap_or_else(|| panic!("no version in {modules}"));
    let parts = [told / 10_000, told / 100 % 100, told % 100];
    assert_eq!(parts.map(|part| part.to_string()).join("."), VERSION);
}

#[test]
fn every_file_that_repeats_the_version_has_it() {
    let checked = script("release/version.sh", &["check"], &[]);
    assert!(checked.status.success(), "{}", told(&checked));
}

/// One that the script does not know would keep an old version. The version is the first in each, if there is one.
#[test]
fn every_package_is_among_them() {
    let forms = [
        ("package.json", "\"version\": \"", "\""),
        ("pom.xml", "<version>", "</version>"),
        ("pyproject.toml", "\nversion = \"", "\""),
    ];
    let listed = text("scripts/release/versions.txt");
    for (name, before, after) in forms {
        let [clients, examples] =
            ["clients", "examples"].map(|folder| named(name, &root().join(folder)));
        for path in clients.into_iter().chain(examples) {
            let file = text(&path);
            if let Some((_, rest)) = file.split_once(before) {
                let version = rest.split(after).next();
                assert_eq!(version, Some(VERSION), "{}", path.display());
                let path = path.strip_prefix(root()).expect("a file of the project");
                let path = path.to_string_lossy();
                let adapter = path.starts_with("clients/java/adapters/");
                assert!(adapter || listed.contains(&format!("\n{path}  ")), "{path}");
            }
        }
    }
}

#[test]
fn the_changelog_goes_on() {
    let changelog = text("CHANGELOG.md");
    let mut lines = changelog.lines();
    let first = lines
        .find(|line| line.starts_with("## "))
        .expect("a heading");
    let released = first.starts_with(&format!("## [{VERSION}] - "));
    assert!(released || first == "## [Unreleased]", "{first}");
}

#[test]
fn a_release_needs_its_tag_its_version_and_its_notes() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("CHANGELOG.md");
    let changelog = |text: &str| fs::write(&path, text).expect("a file");
    let release = |step: &str, tag: &str| {
        let settings = [("CHANGELOG", &*path)];
        let output = script(&format!("release/{step}.sh"), &[tag], &settings);
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
