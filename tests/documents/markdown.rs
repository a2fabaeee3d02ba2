//! The documents of the repository: every Markdown file, as prose and as blocks of code.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use testbed::module::root;

/// Folders that are built or fetched.
const NOT_OURS: &[&str] = &["target", "node_modules", ".git", ".servers", ".run", "dist"];

/// A document.
pub(crate) struct Page {
    /// Where it is, from the root of the repository.
    pub(crate) path: PathBuf,
    text: String,
}

/// A fenced block of code.
pub(crate) struct Block<'page> {
    /// The number of its first line, from 1.
    pub(crate) line: usize,
    pub(crate) lines: Vec<&'page str>,
}

/// Every document.
pub(crate) fn pages() -> Vec<Page> {
    let mut found = Vec::new();
    collect(Path::new(""), &mut found);
    found.sort();
    assert!(found.len() > 10, "only {found:?}");
    found.iter().map(Page::read).collect()
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root().join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name();
        let path = folder.join(&name);
        if entry.file_type().expect("a type").is_dir() {
            if !NOT_OURS.iter().any(|other| name == *other) {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

impl Page {
    pub(crate) fn read(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref().to_owned();
        let text = fs::read_to_string(root().join(&path));
        let text = text.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        Self { path, text }
    }

    pub(crate) fn lines(&self) -> impl Iterator<Item = &str> {
        self.text.lines()
    }

    /// The lines outside of blocks of code, each with its number.
    pub(crate) fn prose(&self) -> Vec<(usize, &str)> {
        self.split().0
    }

    pub(crate) fn blocks(&self) -> Vec<Block<'_>> {
        self.split().1
    }

    fn split(&self) -> (Vec<(usize, &str)>, Vec<Block<'_>>) {
        let (mut prose, mut blocks) = (Vec::new(), Vec::new());
        let mut open: Option<(usize, Block<'_>)> = None;
        for (line, text) in (1..).zip(self.lines()) {
            let indent = text.len() - text.trim_start().len();
            match &mut open {
                None if text.trim_start().starts_with("```") => {
                    let lines = Vec::new();
                    let line = line + 1;
                    open = Some((indent, Block { line, lines }));
                }
                None => prose.push((line, text)),
                Some(_) if text.trim() == "```" => blocks.extend(open.take().map(|open| open.1)),
                Some((outer, block)) => block.lines.push(text.get(*outer..).unwrap_or_default()),
            }
        }
        assert!(open.is_none(), "{}: an open block", self.path.display());
        (prose, blocks)
    }

    /// The names by which its headings are linked to.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        let prose = self.prose();
        let headings = prose.iter().filter_map(|(_, line)| {
            let text = line.trim_start_matches('#');
            (text.len() < line.len()).then_some(text.strip_prefix(' ')?)
        });
        let anchor = |heading: &str| {
            let name = anchor(heading);
            let before = seen.entry(name.clone()).or_default();
            *before += 1;
            match *before {
                1 => name,
                again => format!("{name}-{}", again - 1),
            }
        };
        headings.map(anchor).collect()
    }
}

/// As the usual renderers name a heading: small letters, blanks as hyphens, no other punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ if letter.is_alphanumeric() => Some(letter),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

/// What stands in backticks in a line of prose.
pub(crate) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
