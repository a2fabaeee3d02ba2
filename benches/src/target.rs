//! The folder for build results and logs of the benchmark.

use std::env;
use std::fs;
use std::path::PathBuf;

use testbed::module::root;

/// `target/benchmark`, created if missing.
pub(crate) fn target_folder() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("benchmark");
    // If that fails, the first write to it reports the error.
    let _ = fs::create_dir_all(&folder);
    folder
}
