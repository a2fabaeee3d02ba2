//! What the documents say, checked: links, names of files and of make targets, and what is typed in
//! them and answered. That the pages of the commands say what `COMMAND DOCS` says is in `tests/contract`.

mod history;
mod markdown;
mod names;
mod sessions;
mod terminal;

use markdown::Page;

/// A README is read to its end only where it is short.
const LONGEST_README: usize = 170;

#[test]
fn the_readme_is_short() {
    let lines = Page::read("README.md").lines().count();
    assert!(lines <= LONGEST_README, "{lines} lines");
}
