//! The languages whose client has a worker.

use crate::failure::Verdict;
use crate::ledger::Ledger;
use crate::site::Site;
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
    /// The scenarios that it cannot do, by its file `without`: one a line.
    without: Vec<String>,
    /// How many of its scenarios this machine can run at once, by its file `jobs`: a client that starts a process for
    /// each step would measure how these wait for each other.
    pub(crate) jobs: usize,
}

/// How long the first start may take, in which the worker may be built.
const BUILD: Duration = Duration::from_secs(600);

/// The languages in this folder, `<language>/trial/start`, in order; of these names, if there are any. A client
/// with a second worker, such as one for asyncio, has `start-<which>` for it.
pub(crate) fn all(clients: &Path, names: &[String]) -> Vec<Language> {
    let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all = Vec::new();
    for folder in entries(clients) {
        let without = fs::read_to_string(folder.path().join("trial/without")).unwrap_or_default();
        let without: Vec<_> = without.lines().map(str::to_owned).collect();
        let jobs = fs::read_to_string(folder.path().join("trial/jobs")).ok();
        let jobs = jobs.and_then(|jobs| jobs.trim().parse().ok());
        let jobs = jobs.unwrap_or(usize::MAX);
        for file in entries(&folder.path().join("trial")) {
            let (language, file_name) = (folder.file_name(), file.file_name());
            let (language, file_name) = (language.to_string_lossy(), file_name.to_string_lossy());
            let which = file_name.strip_prefix("start");
            let is_start = which.is_some_and(|it| it.is_empty() || it.starts_with('-'));
            let name = format!("{language}{}", which.unwrap_or_default());
            let program = file.path();
            let is_meant =
                names.is_empty() || names.iter().any(|it| *it == name || *it == language);
            if is_start && is_executable(&program) && is_meant {
                all.push(Language {
                    name,
                    program,
                    without: without.clone(),
                    jobs,
                });
            }
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    all
}

impl Language {
    /// Whether it can do this scenario.
    pub(crate) fn can_do(&self, scenario: &str) -> bool {
        self.without.iter().all(|name| name != scenario)
    }

    /// Starts the worker once, for which it may have to be built.
    pub(crate) fn prepare(&self, sound: &Site) -> Verdict {
        let ledger = Arc::new(Ledger::default());
        let worker = Worker::start(&self.program, 0, &ledger, BUILD)?;
        worker.warm_up(sound)?;
        worker.end()
    }
}

fn is_executable(program: &Path) -> bool {
    fs::metadata(program).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
