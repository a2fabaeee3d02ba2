//! The languages whose client has a worker.

use crate::failure::Verdict;
use crate::ledger::Ledger;
use crate::worker::Worker;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A client's worker.
pub(crate) struct Language {
    pub(crate) name: String,
    /// Its start script.
    pub(crate) program: PathBuf,
}

/// How long the first start may take, in which the worker may be built.
const BUILD: Duration = Duration::from_secs(600);

/// The languages in this folder, `<language>/trial/start`, in order; of these names, if there are any.
pub(crate) fn all(clients: &Path, names: &[String]) -> Vec<Language> {
    let folders = fs::read_dir(clients).into_iter().flatten().flatten();
    let mut all: Vec<_> = folders
        .map(|folder| Language {
            name: folder.file_name().to_string_lossy().into_owned(),
            program: folder.path().join("trial/start"),
        })
        .filter(|language| is_executable(&language.program))
        .filter(|language| names.is_empty() || names.contains(&language.name))
        .collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

impl Language {
    /// Starts the worker once, for which it may have to be built.
    pub(crate) fn prepare(&self) -> Verdict {
        let ledger = Arc::new(Ledger::default());
        Worker::start(&self.program, 0, &ledger, BUILD)?.end()
    }
}

fn is_executable(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
