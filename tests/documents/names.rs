//! Every link to a file of the repository leads to one, and to a heading where it names one. Every file that a document
//! names is there, and every make target.

use crate::markdown::{Page, pages, quoted, root};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for (line, target) in links(&page) {
            checked += 1;
            if let Err(why) = follow(&page, &target) {
                broken.push(format!("{}:{line}: {target}: {why}", page.path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(checked > 100, "only {checked} links were found");
}

/// The targets of the links of a page that lead into the repository.
fn links(page: &Page) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, text) in page.prose() {
        let definition = text
            .starts_with('[')
            .then(|| text.split_once("]: "))
            .flatten();
        let inline = text.split("](").skip(1);
        let inline = inline.filter_map(|rest| Some(rest.split_once(')')?.0));
        found.extend(
            inline
                .chain(definition.map(|(_, target)| target.trim()))
                .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
                .map(|target| (line, target.to_owned())),
        );
    }
    found
}

fn follow(page: &Page, target: &str) -> Result<(), String> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let file = if path.is_empty() {
        page.path.clone()
    } else {
        let folder = page.path.parent().expect("a folder");
        resolve(&folder.join(path)).ok_or("it leads out of the repository")?
    };
    if !root().join(&file).exists() || file.starts_with("target") {
        return Err("no such file".to_owned());
    }
    let Some(anchor) = anchor else { return Ok(()) };
    if file.extension().is_none_or(|extension| extension != "md") {
        return Err("a heading of what is no document".to_owned());
    }
    if Page::read(&file)
        .anchors()
        .iter()
        .any(|name| name == anchor)
    {
        Ok(())
    } else {
        Err("no such heading".to_owned())
    }
}

/// The path without `..`; none where that leads out.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                if !resolved.pop() {
                    return None;
                }
            }
            Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    Some(resolved)
}

/// How a path in the repository begins.
const FOLDERS: &[&str] = &[
    ".ci/",
    ".github/",
    "benches/",
    "clients/",
    "crates/",
    "docs/",
    "examples/",
    "fuzz/",
    "packaging/",
    "scripts/",
    "src/",
    "tests/",
];

#[test]
fn every_file_that_is_named_is_there() {
    let mut missing = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for (line, text) in code(&page) {
            for name in text.split_whitespace().map(trimmed) {
                if is_path(name) || is_document(name) {
                    checked += 1;
                    if !is_there(&page, name) {
                        missing.push(format!("{}:{line}: {name}", page.path.display()));
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(checked > 30, "only {checked} names were found");
}

/// What stands in backticks, and the lines of the blocks of code, each with the number of its line.
fn code(page: &Page) -> Vec<(usize, &str)> {
    let prose = page.prose().into_iter();
    let in_prose = prose.flat_map(|(line, text)| quoted(text).map(move |code| (line, code)));
    let blocks = page.blocks().into_iter();
    let in_blocks = blocks.flat_map(|block| (block.line..).zip(block.lines));
    in_prose.chain(in_blocks).collect()
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(['(', ')', ',', ';', ':', '"', '\''])
        .trim_end_matches(['/', '.'])
}

fn is_path(name: &str) -> bool {
    FOLDERS.iter().any(|folder| name.starts_with(folder)) && !name.contains(['*', '<', '{', '…'])
}

fn is_document(name: &str) -> bool {
    Path::new(name).extension() == Some("md".as_ref()) && !name.contains(['*', '<', '{', '/'])
}

fn is_there(page: &Page, name: &str) -> bool {
    let beside = page.path.parent().expect("a folder");
    [root().join(name), root().join(beside).join(name)]
        .iter()
        .any(|path| path.exists())
}

#[test]
fn every_make_target_that_is_named_is_there() {
    let targets = targets();
    let mut missing = Vec::new();
    let mut checked = 0;
    for page in pages() {
        for (line, text) in code(&page) {
            for target in made(text) {
                checked += 1;
                if !targets.contains(target) {
                    missing.push(format!("{}:{line}: make {target}", page.path.display()));
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(checked > 20, "only {checked} targets were found");
}

/// The targets that a command line makes.
fn made(line: &str) -> Vec<&str> {
    let words = line.split('#').next().unwrap_or_default();
    let mut words = words.split_whitespace();
    if words.find(|word| *word != "sudo" && !word.contains('=')) != Some("make") {
        return Vec::new();
    }
    let is_target = |word: &&str| {
        word.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte == b'-')
    };
    words.take_while(is_target).collect()
}

fn targets() -> BTreeSet<String> {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("a Makefile");
    let rules = makefile
        .lines()
        .filter(|line| !line.starts_with(['.', '#', '\t', ' ']));
    let names = rules.filter_map(|line| line.split_once(':').map(|(name, _)| name));
    names.map(str::to_owned).collect()
}

/// A changelog is for users: they make nothing.
#[test]
fn the_changelog_names_no_make_target() {
    for (line, text) in Page::read("CHANGELOG.md").prose() {
        let made: Vec<_> = quoted(text).flat_map(made).collect();
        assert!(made.is_empty(), "CHANGELOG.md:{line}: {made:?}");
    }
}
