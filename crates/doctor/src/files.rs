//! The configuration files of a server that runs on this machine: which of them load modules.

use glob::{Pattern, glob};
use redis_lock_tool::{Names, number};
use std::fs;
use std::path::Path;

/// Files that include each other would be read without end.
const DEEPEST: usize = 10;

/// The modules that the configuration of a server loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Files {
    /// The server's own file, which `CONFIG REWRITE` writes.
    pub(crate) own: String,
    /// The modules that are loaded in it.
    pub(crate) loads: Vec<String>,
    /// Included files, and a module that each loads.
    pub(crate) included: Vec<(String, String)>,
}

/// Reads them; none where the server has none, runs elsewhere, or its files may not be read.
pub(crate) fn read(info: &Names) -> Option<Files> {
    let own = info.get("config_file").filter(|own| !own.is_empty())?;
    // The number may be that of another process, where the server runs in a container or on another machine.
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
    // A relative path starts where the server was started, which is not known; most are beside its file.
    let folder = Path::new(own).parent().unwrap_or(Path::new(""));
    let folder = Pattern::escape(&folder.display().to_string());
    add(&mut files, &text, Path::new(&folder), None, 0);
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
                // The value may be a pattern.
                let pattern = folder.join(value).display().to_string();
                let paths = glob(&pattern).into_iter().flatten();
                for path in paths.filter_map(Result::ok) {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    add(files, &text, folder, Some(&path), depth + 1);
                }
            }
            _ => {}
        }
    }
}
