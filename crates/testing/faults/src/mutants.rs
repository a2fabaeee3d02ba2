//! Mutants: the module, broken on purpose. The fault runs must notice each of these.

use crate::campaign::Choice;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::module;

/// An error in the module.
struct Mutant {
    name: &'static str,
    /// Which configuration shows it.
    shown_by: &'static str,
    edits: &'static [Edit],
}

/// In this file this text, which is there once, becomes that one.
struct Edit {
    file: &'static str,
    from: &'static str,
    to: &'static str,
}

impl Edit {
    /// The file's text with the edit, for a copy of the project.
    fn applied(&self, project: &Path) -> String {
        let text = fs::read_to_string(project.join(self.file)).expect("a source file");
        let (file, from) = (self.file, self.from);
        let times = text.matches(from).count();
        assert_eq!(times, 1, "{file} has not got once: {from}");
        text.replace(from, self.to)
    }
}

const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a re-entry gives a new token",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/lock.rs",
            from: "    let grant = Grant {
        holds,
        lease,
        ..before
    };",
            to: "    let grant = Grant {
        token: clock.next(now).unwrap_or(before.token),
        holds,
        lease,
    };",
        }],
    },
    Mutant {
        name: "a release does not look at the owner",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/lock.rs",
            from: "    if held.owner != request.owner {
        return Err(Refusal::NotOwner);
    }
    check_token(held.grant, request.token)?;
    let before",
            to: "    check_token(held.grant, request.token)?;
    let before",
        }],
    },
    Mutant {
        name: "a repeated acquire with HOLDS adds up",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/lock.rs",
            from: "        Some(wanted) if before.holds >= wanted => before.holds,\n",
            to: "",
        }],
    },
    Mutant {
        name: "any token passes the fence",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "crates/core/src/lock.rs",
            from: "        Some(held) => check_token(held.grant, Some(token)),",
            to: "        Some(held) => check_token(held.grant, Some(token)).or(Ok(())),",
        }],
    },
    Mutant {
        name: "the token clock is not restored",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "src/locks/clock.rs",
            from: "    with_token_clock(|clock| clock.observe(token));",
            to: "    let _ = token;",
        }],
    },
    Mutant {
        name: "a last release does not reach the file",
        shown_by: "aof-always",
        edits: &[Edit {
            file: "src/locks/lock_key.rs",
            from: "            effect::replicate_release(context);\n",
            to: "",
        }],
    },
    Mutant {
        name: "locks are handed over while writes are paused",
        shown_by: "failover",
        edits: &[
            Edit {
                file: "src/waiting/serve.rs",
                from: "if context.writes_paused() || context.flags().loading()",
                to: "if context.flags().loading()",
            },
            Edit {
                file: "src/waiting/serve.rs",
                from: "        && !context.writes_paused()\n        && may_acquire",
                to: "        && may_acquire",
            },
            Edit {
                file: "src/waiting/serve.rs",
                from: "WriteCheck::NotNow => return Step::Later,",
                to: "WriteCheck::NotNow => {}",
            },
            Edit {
                file: "src/waiting/tick.rs",
                from: "!context.writes_paused() && !context.flags().loading()",
                to: "!context.flags().loading()",
            },
        ],
    },
    Mutant {
        name: "a grant on its way to a dead client is not taken back",
        shown_by: "dying-waiters",
        edits: &[Edit {
            file: "crates/core/src/pending_grants.rs",
            from: "        let shared = self.finish(&pending, false);
",
            to: "        let shared = self.finish(&pending, false);
        if !pending.lock_id.key.is_empty() {
            return None;
        }
",
        }],
    },
    Mutant {
        name: "a dead call takes the grant from its twin",
        shown_by: "dying-waiters",
        edits: &[Edit {
            file: "crates/core/src/pending_grants.rs",
            from: "        let shared = self.finish(&pending, false);",
            to: "        let shared = self.finish(&pending, false) && false;",
        }],
    },
    Mutant {
        name: "a newcomer passes the queue",
        shown_by: "dying-waiters",
        edits: &[
            Edit {
                file: "src/waiting/lock.rs",
                from: "key.record()?.is_none() && waiting(context, name) > 0",
                to: "key.record()?.is_none() && waiting(context, name) > usize::MAX - 1",
            },
            Edit {
                file: "src/waiting/lock.rs",
                from: "held.is_none() && waiting(context, name) > 0",
                to: "held.is_none() && waiting(context, name) > usize::MAX - 1",
            },
        ],
    },
    Mutant {
        name: "a lock is granted where its slot has left",
        shown_by: "cluster-slots",
        edits: &[
            Edit {
                file: "src/waiting/serve.rs",
                from: "held.is_none() && (caller == Caller::EventLoop || context.flags().cluster())",
                to: "held.is_none() && caller == Caller::EventLoop && !context.flags().cluster()",
            },
            Edit {
                file: "src/waiting/serve.rs",
                from: "!context.flags().cluster()\n        && !context.writes_paused()",
                to: "!context.writes_paused()",
            },
            Edit {
                file: "src/waiting/redirection.rs",
                from: "if !context.flags().cluster() {",
                to: "if true {",
            },
        ],
    },
];

/// How many seeds are tried until a mutant is noticed.
const SEEDS: u64 = 6;

/// Breaks the module in each of these ways in turn, or in those that are named; whether each was noticed.
#[must_use]
pub fn run(choice: &Choice) -> bool {
    let names = &choice.names;
    let wanted = |mutant: &&Mutant| {
        names.is_empty() || names.iter().any(|name| mutant.name.contains(name.as_str()))
    };
    let mut all_found = true;
    for mutant in MUTANTS.iter().filter(wanted) {
        let library = build(mutant);
        let found = (0..SEEDS).find_map(|number| {
            let seed = choice.seed.wrapping_add(number);
            play(mutant, &library, seed).map(|sign| (number + 1, sign))
        });
        match &found {
            Some((seeds, sign)) => {
                println!(
                    "found after {seeds} of {SEEDS}: {}\n    {sign}",
                    mutant.name
                );
            }
            None => println!("NOT FOUND in {SEEDS}: {}", mutant.name),
        }
        all_found &= found.is_some();
    }
    all_found
}

/// One run against the broken module; the first thing that was wrong, in the history or with the
/// servers.
fn play(mutant: &Mutant, library: &Path, seed: u64) -> Option<String> {
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args(["locks", "--seconds", "0", "--seed", &seed.to_string()])
        .arg(mutant.shown_by)
        .env("REDIS_LOCK_MODULE", library)
        .output()
        .expect("this program");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    let of_history = |line: &&str| line.starts_with(mutant.shown_by) && line.contains("seed");
    let of_servers = |line: &&str| line.contains("panicked at");
    let words = || said.lines().skip_while(|line| !of_servers(line));
    let sign = said.lines().find(of_history).or_else(|| words().nth(1));
    sign.map(str::to_owned)
}

/// Builds the module with the edits, in a copy of the project.
fn build(mutant: &Mutant) -> PathBuf {
    let target = module::root().join("target/mutants");
    let copy = target.join("project");
    copy_folder(module::root(), &copy, &["target", "fuzz"]);
    for edit in mutant.edits {
        let file = copy.join(edit.file);
        fs::write(&file, edit.applied(&copy)).expect("a source file");
    }
    let built = Command::new("cargo")
        .args([
            "build",
            "--package",
            "redis-lock",
            "--lib",
            "--quiet",
            "--target-dir",
        ])
        .arg(&target)
        .current_dir(&copy)
        .env("RUSTFLAGS", "--cap-lints allow")
        .status()
        .expect("cargo starts");
    assert!(built.success(), "{}: it does not build", mutant.name);
    let (prefix, suffix) = (std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    target.join(format!("debug/{prefix}redis_lock{suffix}"))
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
        for edit in MUTANTS.iter().flat_map(|mutant| mutant.edits) {
            edit.applied(module::root());
        }
    }
}
