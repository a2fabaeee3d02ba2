//! Each target of the Makefile that checks something runs in a workflow, and each kind of check in `.ci/run`.

use super::text;
use std::collections::BTreeSet;

/// The targets that check nothing: they run a program, build, install or write files.
const NO_CHECKS: &str = "help help-all run cluster sentinel top doctor bench-full bench-keep fmt ci install docs clean \
    setup-build setup-server setup-cli setup-counts";

/// Where each check runs: in `.ci/run` (R), for each change (C), each night (N).
const CHECKS: [(&str, &str); 33] = [
    ("test", "RC"),
    ("coverage", "N"),
    ("matrix", "RC"),
    ("fuzz", "N"),
    ("fuzz-targets", "RC"),
    ("storm", "N"),
    ("faults", "RCN"),
    ("quorum", "RCN"),
    ("mutants", "N"),
    ("mutants-core", "N"),
    ("sanitize", "N"),
    ("miri", "RC"),
    ("model", "RCN"),
    ("monitoring", "RC"),
    ("msrv", "C"),
    ("deny", "CN"),
    ("clients", "RCN"),
    ("adapters", "RCN"),
    ("trial", "RCN"),
    ("bench", "N"),
    ("bench-check", "RC"),
    ("lint", "RC"),
    ("site", "RC"),
    ("build", "N"),
    ("build-all", "R"),
    ("dist", "N"),
    ("dist-test", "N"),
    ("dist-again", "N"),
    ("packages", "N"),
    ("packages-test", "N"),
    ("container-test", "N"),
    ("release-rehearsal", "N"),
    ("server-suite", "N"),
];

/// The targets that the Makefile declares.
fn targets() -> BTreeSet<String> {
    let makefile = text("Makefile").replace("\\\n", " ");
    let line = makefile
        .lines()
        .find_map(|line| line.strip_prefix(".PHONY:"))
        .expect("the targets that are no files");
    line.split_whitespace().map(str::to_owned).collect()
}

/// The targets that a workflow makes: words of `make`, and values of a matrix `target`.
fn made_in(workflow: &str) -> BTreeSet<String> {
    let mut made = BTreeSet::new();
    let lines = workflow.lines();
    for line in lines.filter(|line| !line.trim().starts_with('#')) {
        if let Some(values) = line.trim().strip_prefix("target: [") {
            made.extend(values.trim_end_matches(']').split(", ").map(str::to_owned));
        } else if let Some((_, words)) = line.split_once("make ") {
            let word = words.split_whitespace().next();
            made.extend(word.filter(|it| *it != "${{").map(str::to_owned));
        }
    }
    made
}

/// The parts of `.ci/run`: one in quotes on each line of its lists `parts` and `beside`.
fn parts() -> BTreeSet<String> {
    let script = text(".ci/run");
    let quoted = script.lines().filter_map(|line| {
        let line = line.trim().trim_start_matches("beside+=(");
        line.strip_prefix('"')
    });
    quoted
        .filter_map(|part| part.split([' ', '"']).next())
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_target_is_a_check_or_none() {
    let listed = NO_CHECKS.split_whitespace();
    let listed: BTreeSet<_> = listed.chain(CHECKS.map(|(name, _)| name)).collect();
    let targets = targets();
    let targets: BTreeSet<_> = targets.iter().map(String::as_str).collect();
    assert_eq!(listed, targets);
}

#[test]
fn each_check_runs_where_the_table_says() {
    let places = [
        ('R', parts()),
        ('C', made_in(&text(".github/workflows/checks.yml"))),
        ('N', made_in(&text(".github/workflows/nightly.yml"))),
    ];
    for (name, where_) in CHECKS {
        let found = places.iter().filter(|(_, made)| made.contains(name));
        let found: String = found.map(|(letter, _)| letter).collect();
        assert_eq!(found, where_, "{name}");
    }
    let known = |made: &String| CHECKS.iter().any(|(name, _)| name == made);
    for (letter, made) in &places {
        assert!(made.iter().all(known), "{letter}: {made:?}");
    }
}

/// A short form alone would leave something out forever.
#[test]
fn what_is_short_in_a_run_is_whole_in_a_workflow() {
    for (name, where_) in CHECKS {
        assert!(!where_.is_empty(), "{name} runs nowhere");
        if where_.contains('R') && name != "build-all" {
            assert!(where_.len() > 1, "{name} has its short form only");
        }
    }
    for workflow in ["checks", "nightly"] {
        let workflow = text(format!(".github/workflows/{workflow}.yml"));
        assert!(!workflow.contains("FORM"), "a short form");
    }
}
