//! Which programs are tested: the module, and the server that loads it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of the release build: `REDIS_LOCK_MODULE`, or built here, once for each test program,
/// so that a plain `cargo test` never runs against an old module.
pub fn path() -> &'static PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| match env::var_os("REDIS_LOCK_MODULE") {
        Some(path) if !path.is_empty() => root().join(path),
        _ => build(),
    })
}

/// The project's root, where relative paths start.
pub fn root() -> &'static Path {
    const HERE: &str = env!("CARGO_MANIFEST_DIR");
    Path::new(HERE)
        .ancestors()
        .nth(3)
        .expect("crates/testing/testbed is two folders down")
}

fn build() -> PathBuf {
    let target = root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let built = Command::new(env!("CARGO"))
        .args([
            "build",
            "--release",
            "--package",
            "redis-lock",
            "--lib",
            "--quiet",
            "--target-dir",
        ])
        .arg(&target)
        .current_dir(root())
        .status()
        .expect("cargo starts");
    assert!(built.success(), "cargo build --release failed");
    target.join("release").join(format!(
        "{}redis_lock{}",
        env::consts::DLL_PREFIX,
        env::consts::DLL_SUFFIX
    ))
}

/// The server's program: `REDIS_SERVER`, or the one in the search path. A relative path starts at
/// the project's root.
pub fn server_program() -> PathBuf {
    match env::var_os("REDIS_SERVER") {
        Some(program) if Path::new(&program).components().count() > 1 => root().join(program),
        Some(program) if !program.is_empty() => program.into(),
        _ => "redis-server".into(),
    }
}
