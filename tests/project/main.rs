//! What the project promises of its own files: the version, the scripts of a release, the installation, where each
//! check runs, the newcomer's tasks.

mod checks;
mod installation;
mod site;
mod tasks;
mod versions;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, io};

use testbed::module::root;

/// A file of the project as text.
#[track_caller]
fn text(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of this name below a folder of the project, but for what is built or fetched.
fn named(name: &str, folder: &Path) -> Vec<PathBuf> {
    let entries: io::Result<Vec<_>> = fs::read_dir(folder).and_then(Iterator::collect);
    let mut found = Vec::new();
    for entry in entries.expect("a folder that can be read") {
        let path = entry.path();
        let file_name = entry.file_name();
        let file_name = file_name.to_string_lossy();
        if path.is_dir() {
            if !file_name.starts_with('.') && file_name != "target" && file_name != "node_modules" {
                found.extend(named(name, &path));
            }
        } else if file_name == name {
            found.push(path);
        }
    }
    found
}

/// Runs a script of `scripts/`.
#[track_caller]
fn script(name: &str, words: &[&str], environment: &[(&str, &Path)]) -> Output {
    Command::new(root().join("scripts").join(name))
        .args(words)
        .envs(environment.iter().copied())
        .current_dir(root())
        .output()
        .expect("a script that can be run")
}

fn told(output: &Output) -> String {
    let bytes = [&output.stdout[..], &output.stderr].concat();
    String::from_utf8_lossy(&bytes).into_owned()
}
