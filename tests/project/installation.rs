//! `make install` and the script that archives carry: they copy what is there, and build nothing.

use super::told;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;
use testbed::module::root;

const LIBRARY: &str = if cfg!(target_os = "macos") {
    "libredis_lock.dylib"
} else {
    "libredis_lock.so"
};

/// A folder with the project's own files that installing takes, and nothing built.
fn checkout() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("scripts")).expect("a folder");
    for file in [
        "Cargo.lock",
        "Makefile",
        "scripts/lib.sh",
        "scripts/install.sh",
    ] {
        fs::copy(root().join(file), folder.path().join(file)).expect("a copy");
    }
    folder
}

fn put(folder: &Path, name: &str, text: &str) {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join(name), text).expect("a file");
}

/// Runs a program as root's shell would under sudo: no Rust in the path, no settings but these.
fn run(program: &str, words: &[&str], folder: &Path, settings: &[(&str, &Path)]) -> (bool, String) {
    let output: Output = Command::new(program)
        .args(words)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .envs(settings.iter().copied())
        .current_dir(folder)
        .output()
        .expect("a program that can be run");
    (output.status.success(), told(&output))
}

#[test]
fn what_was_built_is_copied_and_the_line_to_load_it_is_told() {
    let folder = checkout();
    let release = folder.path().join("target/release");
    put(&release, LIBRARY, "built");
    let stage = folder.path().join("stage");
    let words = ["install", "PREFIX=/usr"];
    let install = || run("make", &words, folder.path(), &[("DESTDIR", &stage)]);

    let copy = stage.join("usr/lib/redis/modules").join(LIBRARY);
    let (passed, said) = install();
    assert!(passed, "{said}");
    assert_eq!(fs::read_to_string(&copy).expect("a copy"), "built");
    let mode = fs::metadata(&copy).expect("a copy").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let line = format!("\n  loadmodule /usr/lib/redis/modules/{LIBRARY}\n");
    assert!(said.contains(&line), "without DESTDIR: {said}");

    // A later build takes the place of the file, and does not write into it: a server may have it mapped.
    let old = fs::File::open(&copy).expect("a copy");
    put(&release, LIBRARY, "built again");
    let (passed, said) = install();
    assert!(passed, "{said}");
    assert_eq!(fs::read_to_string(&copy).expect("a copy"), "built again");
    assert_eq!(std::io::read_to_string(old).expect("the old one"), "built");
}

#[test]
fn where_nothing_was_built_it_says_so_and_builds_nothing() {
    let folder = checkout();
    let stage = folder.path().join("stage");
    let (passed, said) = run("make", &["install"], folder.path(), &[("DESTDIR", &stage)]);
    assert!(!passed && said.contains("make build"), "{said}");
    assert!(!stage.exists() && !folder.path().join("target").exists());
}

#[test]
fn an_unpacked_archive_installs_itself_with_the_live_view() {
    let folder = TempDir::new().expect("a folder");
    let script = folder.path().join("install.sh");
    fs::copy(root().join("scripts/install.sh"), &script).expect("a copy");
    let prefix = folder.path().join("prefix");
    let install = || {
        let script = script.to_str().expect("a path");
        run("sh", &[script], Path::new("/"), &[("PREFIX", &prefix)])
    };

    let (passed, said) = install();
    let refused = !passed && said.contains("unpack the whole archive");
    assert!(refused, "{said}");

    put(folder.path(), LIBRARY, "the module");
    put(folder.path(), "redis-lock-top", "the view");
    let (passed, said) = install();
    assert!(passed, "{said}");
    let text = |path: &str| fs::read_to_string(prefix.join(path)).expect("a copy");
    assert_eq!(text(&format!("lib/redis/modules/{LIBRARY}")), "the module");
    assert_eq!(text("bin/redis-lock-top"), "the view");
}

#[test]
fn where_it_may_not_write_it_says_what_to_do() {
    let folder = checkout();
    put(&folder.path().join("target/release"), LIBRARY, "built");
    // A file where a folder must be: root is kept from it too.
    put(folder.path(), "prefix", "");
    let prefix = folder.path().join("prefix");
    let settings = [("PREFIX", &*prefix)];
    let (passed, said) = run("scripts/install.sh", &[], folder.path(), &settings);
    let tells = said.contains("cannot write to") && said.contains("sudo");
    assert!(!passed && tells, "{said}");
}

#[test]
fn the_packages_have_the_files_that_documents_name() {
    let package = super::text("packaging/linux/nfpm.yaml");
    let pages = ["docs/monitoring/README.md", "docs/install.md", "README.md"];
    let mut named = 0;
    for page in pages.map(super::text) {
        for (at, _) in page.match_indices("/etc/redis-lock/") {
            let rest = &page[at..];
            let end = rest.find(|letter: char| letter.is_whitespace() || "`',)".contains(letter));
            let path = &rest[..end.unwrap_or(rest.len())];
            assert!(package.contains(&format!("dst: {path}\n")), "{path}");
            named += 1;
        }
    }
    assert!(named >= 4, "{named}");
}
