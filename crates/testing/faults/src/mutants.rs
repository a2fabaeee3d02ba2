//! Mutants: the module, or the Rust client, broken on purpose. A fault run, or the tests in a folder, must notice each
//! mutant of the module, and the common trial each one of the client.
//! Errors that the core's own tests notice are here only where a fault run must notice them too; `make mutants-core`
//! makes others of their kind.

use crate::campaign::Choice;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::module;

/// Each mutant is a line `# name | run configuration`, `# name | tests folder` or `# name | trial scenario`, which says
/// what must notice it, and then its edits: a line `@ file`, and text that becomes other text, as in a patch.
const TEXTS: [&str; 7] = [
    include_str!("mutants/alone.txt"),
    include_str!("mutants/shared.txt"),
    include_str!("mutants/programs.txt"),
    include_str!("mutants/queued.txt"),
    include_str!("mutants/sessions.txt"),
    include_str!("mutants/session_grants.txt"),
    include_str!("mutants/rust_client.txt"),
];

/// An error in the module, or in the Rust client.
struct Mutant {
    name: &'static str,
    shown_by: ShownBy,
    edits: Vec<Edit>,
}

/// The tests or runs that must notice a mutant.
#[derive(Clone, Copy)]
enum ShownBy {
    /// The workload `locks` in this configuration.
    Run(&'static str),
    /// The tests in this folder of `tests`, on the installed server.
    Tests(&'static str),
    /// This scenario of the common trial, with the Rust client.
    Trial(&'static str),
}

/// In this file this text, which is there once, becomes that one.
struct Edit {
    file: &'static str,
    from: String,
    to: String,
}

impl Mutant {
    fn read(text: &'static str) -> Self {
        let (first, edits) = text.split_once("\n@ ").expect("an edit");
        let first = first.strip_prefix("# ").expect("a name");
        let (name, by) = first.split_once(" | ").expect("what notices it");
        let shown_by = match by.split_once(' ') {
            Some(("run", configuration)) => ShownBy::Run(configuration),
            Some(("tests", folder)) => ShownBy::Tests(folder),
            Some(("trial", scenario)) => ShownBy::Trial(scenario),
            _ => panic!("neither a run, tests nor a scenario: {by}"),
        };
        Self {
            name,
            shown_by,
            edits: edits.split("\n@ ").map(Edit::read).collect(),
        }
    }
}

impl Edit {
    fn read(text: &'static str) -> Self {
        let (file, lines) = text.split_once('\n').expect("lines");
        let marked = |mark| {
            let lines = lines.lines().filter_map(|line| line.strip_prefix(mark));
            lines.collect::<Vec<_>>().join("\n")
        };
        Self {
            file,
            from: marked('-'),
            to: marked('+'),
        }
    }

    /// The file's text with the edit, for a copy of the project.
    fn applied(&self, project: &Path) -> String {
        let text = fs::read_to_string(project.join(self.file)).expect("a source file");
        let (file, from) = (self.file, &self.from);
        let times = text.matches(from).count();
        assert_eq!(times, 1, "{file} has not got once: {from}");
        text.replace(from, &self.to)
    }
}

/// All of them.
fn all() -> impl Iterator<Item = Mutant> {
    TEXTS
        .iter()
        .flat_map(|text| text.split("\n\n").map(Mutant::read))
}

/// How many seeds are tried until a mutant is noticed.
const SEEDS: u64 = 6;

/// Plays each of these mutants in turn, or those that are named; whether each was noticed.
#[must_use]
pub fn run(choice: &Choice) -> bool {
    let names = &choice.names;
    let wanted = |mutant: &Mutant| {
        names.is_empty() || names.iter().any(|name| mutant.name.contains(name.as_str()))
    };
    let mut all_found = true;
    for mutant in all().filter(wanted) {
        let found = match mutant.shown_by {
            ShownBy::Run(configuration) => {
                let library = build_module(&mutant);
                let mut seeds = (0..SEEDS).map(|number| choice.seed.wrapping_add(number));
                seeds.find_map(|seed| play(configuration, &library, seed))
            }
            ShownBy::Tests(folder) => test(folder, &build_module(&mutant)),
            ShownBy::Trial(scenario) => try_client(scenario, &mutant),
        };
        match &found {
            Some(sign) => println!("found: {}\n    {sign}", mutant.name),
            None => println!("NOT FOUND: {}", mutant.name),
        }
        all_found &= found.is_some();
    }
    all_found
}

/// One run against the broken module; the first thing that was wrong, in the history or with the
/// servers.
fn play(configuration: &str, library: &Path, seed: u64) -> Option<String> {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["locks", "--seconds", "0"])
        .arg(configuration)
        .env("SEED", seed.to_string())
        .env("REDIS_LOCK_MODULE", library)
        .output()
        .expect("this program");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let of_history = |line: &&str| line.starts_with(configuration) && line.contains("seed");
    let of_servers = |line: &&str| line.contains("panicked at");
    let words = || said.lines().skip_while(|line| !of_servers(line));
    let sign = said.lines().find(of_history).or_else(|| words().nth(1));
    sign.map(str::to_owned)
}

/// Runs the tests in a folder against the broken module; the first that fails.
fn test(folder: &str, library: &Path) -> Option<String> {
    let output = Command::new(module::root().join("scripts/tests.sh"))
        .args([
            "--profile",
            "broken",
            "--package",
            "redis-lock",
            "--test",
            folder,
        ])
        .current_dir(module::root())
        .env("REDIS_LOCK_MODULE", library)
        .output()
        .expect("the tests");
    let said = String::from_utf8_lossy(&output.stderr);
    let failed = |line: &&str| {
        ["FAIL [", "TIMEOUT ["]
            .iter()
            .any(|word| line.contains(word))
    };
    let sign = said.lines().find(failed).map(|line| line.trim().to_owned());
    assert!(output.status.success() || sign.is_some(), "{said}");
    sign
}

/// Puts the broken Rust client through a scenario of the trial; the first thing that was wrong.
fn try_client(scenario: &str, mutant: &Mutant) -> Option<String> {
    let built = build(mutant, &["redis-lock-client", "--example", "trial"]);
    let clients = built.join("clients");
    let start = clients.join("rust/trial/start");
    fs::create_dir_all(start.with_file_name("")).expect("a folder");
    let script = format!("#!/bin/sh\nexec '{}/examples/trial'\n", built.display());
    fs::write(&start, script).expect("a script");
    fs::set_permissions(&start, fs::Permissions::from_mode(0o755)).expect("a script");
    let output = Command::new(module::root().join("scripts/program.sh"))
        .args(["trial", "--scenario", scenario, "--clients"])
        .arg(clients)
        .output()
        .expect("the trial");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    // The last such line has the reason.
    let sign = said.lines().rfind(|line| line.starts_with("rust, "));
    let sign = sign.filter(|_| !output.status.success());
    assert!(output.status.success() || sign.is_some(), "{said}");
    sign.map(str::to_owned)
}

fn build_module(mutant: &Mutant) -> PathBuf {
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let built = build(mutant, &["redis-lock", "--lib"]);
    built.join(format!("{prefix}redis_lock{suffix}"))
}

/// Builds a package with the edits, in a copy of the project. Returns the folder where the result is.
fn build(mutant: &Mutant, package: &[&str]) -> PathBuf {
    let target = module::root().join("target/mutants");
    let copy = target.join("project");
    copy_folder(module::root(), &copy, &["target", "fuzz"]);
    for edit in &mutant.edits {
        let file = copy.join(edit.file);
        fs::write(&file, edit.applied(&copy)).expect("a source file");
    }
    let built = Command::new("cargo")
        .args(["build", "--quiet", "--package"])
        .args(package)
        .arg("--target-dir")
        .arg(&target)
        .current_dir(&copy)
        .env("RUSTFLAGS", "--cap-lints allow")
        .status()
        .expect("cargo starts");
    assert!(built.success(), "{}: it does not build", mutant.name);
    target.join("debug")
}

/// Copies what is in a folder, but for what is hidden or named here. What has not changed is left
/// alone, so that it need not be built again.
fn copy_folder(from: &Path, to: &Path, but: &[&str]) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (name, source) = (entry.file_name(), entry.path());
        let text = name.to_string_lossy();
        if text.starts_with('.') || but.contains(&text.as_ref()) {
            continue;
        }
        let target = to.join(&name);
        if source.is_dir() {
            copy_folder(&source, &target, but);
        } else {
            let new = fs::read(&source).expect("a file");
            if fs::read(&target).ok().as_ref() != Some(&new) {
                fs::write(&target, new).expect("a file");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_edit_fits_the_code() {
        for edit in all().flat_map(|mutant| mutant.edits) {
            edit.applied(module::root());
        }
    }
}
