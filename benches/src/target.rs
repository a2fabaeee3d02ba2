//! Where the benchmark builds and leaves what is not part of the project.

use std::env;
use std::fs;
use std::path::PathBuf;

use testbed::module::root;

/// `target/benchmark`, which is there afterwards.
pub(crate) fn target_folder() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let folder = root().join(target).join("benchmark");
    // One that cannot be made is told of by whoever writes to it.
    let _ = fs::create_dir_all(&folder);
    folder
}
