//! Every link to a file of the repository leads to one, and to a heading where it names one. Every file that a document
//! names is there, and every make target.

use crate::markdown::{Page, pages, quoted};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Component, Path, PathBuf};
use testbed::module::root;

/// Demands that of what `find` finds in each page, with the number of its line, `wrong` finds nothing wrong, and that
/// there is enough of it.
fn all_are_right<'a, T: Display>(
    pages: &'a [Page],
    least: usize,
    find: impl Fn(&'a Page) -> Vec<(usize, T)>,
    wrong: impl Fn(&Page, &T) -> Option<&'static str>,
) {
    let mut found = Vec::new();
    let mut checked = 0;
    for page in pages {
        for (line, name) in find(page) {
            checked += 1;
            if let Some(why) = wrong(page, &name) {
                found.push(format!("{}:{line}: {name}: {why}", page.path.display()));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
    assert!(checked > least, "only {checked} were found");
}

#[test]
fn every_link_leads_somewhere() {
    all_are_right(&pages(), 100, links, |page, target| follow(page, target));
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

/// What is wrong with the target of a link of the page.
fn follow(page: &Page, target: &str) -> Option<&'static str> {
    let (path, anchor) = match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    };
    let file = if path.is_empty() {
        page.path.clone()
    } else {
        let folder = page.path.parent().expect("a folder");
        match resolve(&folder.join(path)) {
            Some(file) => file,
            None => return Some("it leads out of the repository"),
        }
    };
    if !root().join(&file).exists() || file.starts_with("target") {
        return Some("no such file");
    }
    let anchor = anchor?;
    if file.extension().is_none_or(|extension| extension != "md") {
        return Some("a heading of what is no document");
    }
    let is_there = Page::read(&file)
        .anchors()
        .iter()
        .any(|name| name == anchor);
    (!is_there).then_some("no such heading")
}

/// The path without `..`; none where that leads out.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => resolved.pop().then_some(())?,
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
    fn names((line, text): (usize, &str)) -> impl Iterator<Item = (usize, &str)> {
        let names = text.split_whitespace().map(trimmed);
        let names = names.filter(|name| is_path(name) || is_document(name));
        names.map(move |name| (line, name))
    }
    all_are_right(
        &pages(),
        30,
        |page| code(page).into_iter().flat_map(names).collect(),
        |page, name| (!is_there(page, name)).then_some("no such file"),
    );
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
    all_are_right(
        &pages(),
        20,
        |page| {
            let all = code(page).into_iter();
            all.flat_map(|(line, text)| made(text).into_iter().map(move |target| (line, target)))
                .collect()
        },
        |_, target| (!targets.contains(*target)).then_some("no such target"),
    );
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
