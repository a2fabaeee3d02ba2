//! Reads the configuration files of a server on this machine, to find out which of them load modules.

use redis_lock_tool::{Names, number};
use std::fs;
use std::path::{Path, PathBuf};

/// The deepest level of includes. Without a limit, files that include each other would be read forever.
const DEEPEST: usize = 10;

/// The modules that the configuration of a server loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The server's own file, which `CONFIG REWRITE` writes.
    pub(crate) own: String,
    /// The modules that it loads.
    pub(crate) loads: Vec<String>,
    /// Included files, each with a module that it loads.
    pub(crate) included: Vec<(String, String)>,
}

/// Reads the files; `None` if the server has none, runs on another machine, or its files are not readable.
pub(crate) fn read(info: &Names) -> Option<Files> {
    let own = info.get("config_file").filter(|own| !own.is_empty())?;
    // If the server runs in a container or on another machine, this may be the id of a different process.
    let process = format!("/proc/{}/cmdline", info.get("process_id")?);
    let port = number(info, "tcp_port")?;
    let title = fs::read_to_string(process).ok()?;
    title.contains(&format!(":{port}")).then_some(())?;
    let mut files = Files {
        own: own.clone(),
        loads: Vec::new(),
        included: Vec::new(),
    };
    let text = fs::read_to_string(own).ok()?;
    // A relative path starts in the folder where the server was started. That folder is unknown, but it is usually the
    // one of the configuration file.
    let folder = Path::new(own).parent().unwrap_or(Path::new(""));
    add(&mut files, &text, folder, None, 0);
    Some(files)
}

fn add(files: &mut Files, text: &str, folder: &Path, included: Option<&Path>, depth: usize) {
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap_or_default().to_lowercase();
        let Some(value) = words.next().map(|value| value.trim_matches('"')) else {
            continue;
        };
        match (name.as_str(), included) {
            ("loadmodule", None) => files.loads.push(value.to_owned()),
            ("loadmodule", Some(path)) => {
                let path = path.display().to_string();
                files.included.push((path, value.to_owned()));
            }
            ("include", _) if depth < DEEPEST => {
                for path in matching(&folder.join(value)) {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    add(files, &text, folder, Some(&path), depth + 1);
                }
            }
            _ => {}
        }
    }
}

/// The files that an `include` line names, whose file name may contain a `*`.
fn matching(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let Some((before, after)) = name.split_once('*') else {
        return vec![path.to_owned()];
    };
    let is_named = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let rest = name.strip_prefix(before);
        rest.is_some_and(|rest| rest.ends_with(after))
    };
    let entries = path.parent().and_then(|folder| fs::read_dir(folder).ok());
    let entries = entries.into_iter().flatten().filter_map(Result::ok);
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(is_named).collect();
    paths.sort();
    paths
}
