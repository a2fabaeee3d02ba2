//! Every link to a file of the repository leads to one, and to a heading where it names one.

use crate::markdown::{Page, pages, root};
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
