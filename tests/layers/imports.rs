//! What a source file imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::{Item, UseTree};

/// The paths that a file imports, word by word; what its tests import is left out.
pub(crate) struct Imports {
    text: String,
    paths: Vec<Vec<String>>,
}

impl Imports {
    pub(crate) fn of(file: &Path) -> Self {
        let text = fs::read_to_string(file).expect("a source file");
        let parsed = syn::parse_file(&text).expect("Rust code");
        let mut paths = Vec::new();
        for item in &parsed.items {
            if let Item::Use(item) = item {
                expand(&item.tree, &mut Vec::new(), &mut paths);
            }
        }
        Self { text, paths }
    }

    /// The layers that it names, also those in the middle of its code.
    pub(crate) fn layers(&self) -> BTreeSet<String> {
        let word = |text: &str| -> String {
            text.chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        };
        let mut layers: BTreeSet<_> = self.text.split("crate::").skip(1).map(word).collect();
        layers.extend(self.paths.iter().map(|path| path[0].clone()));
        layers
    }
}

fn expand(tree: &UseTree, before: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let ends = |name: String, before: &[String], paths: &mut Vec<Vec<String>>| {
        paths.push(before.iter().cloned().chain([name]).collect());
    };
    match tree {
        UseTree::Path(path) => {
            before.push(path.ident.to_string());
            expand(&path.tree, before, paths);
            before.pop();
        }
        UseTree::Name(name) => ends(name.ident.to_string(), before, paths),
        UseTree::Rename(name) => ends(name.ident.to_string(), before, paths),
        UseTree::Glob(_) => ends("*".to_owned(), before, paths),
        UseTree::Group(group) => {
            for tree in &group.items {
                expand(tree, before, paths);
            }
        }
    }
}

/// Which files of a folder use which others. What the folder's own file (`mod.rs`, `lib.rs`) hands on
/// counts as used where it comes from.
pub(crate) fn between_files(
    folder: &Path,
    files: &[PathBuf],
) -> BTreeMap<String, BTreeSet<String>> {
    let name_of = |file: &Path| -> String {
        let inside = file.strip_prefix(folder).expect("a file of the folder");
        let first = inside.iter().next().expect("a name");
        let stem = Path::new(first).file_stem().expect("a name");
        stem.to_string_lossy().into_owned()
    };
    let is_own = |name: &str| name == "mod" || name == "lib";
    let names: BTreeSet<_> = files.iter().map(|file| name_of(file)).collect();
    let mut handed_on = BTreeMap::new();
    for file in files.iter().filter(|file| is_own(&name_of(file))) {
        for path in Imports::of(file).paths {
            if let [from, .., item] = &path[..]
                && names.contains(from)
            {
                handed_on.insert(item.clone(), from.clone());
            }
        }
    }
    let mut edges = BTreeMap::<String, BTreeSet<String>>::new();
    for file in files {
        let name = name_of(file);
        let inside = file.strip_prefix(folder).expect("a file of the folder");
        // From a file in a folder within, the files beside that folder are one step further up.
        let up = inside.components().count();
        let used = edges.entry(name.clone()).or_default();
        for path in Imports::of(file).paths {
            let supers = path.iter().take_while(|word| *word == "super").count();
            let inner = path[0] == "crate" && is_own("lib") && folder.ends_with("crates/core/src");
            let rest = match (is_own(&name), inner) {
                (true, _) => &path[usize::from(path[0] == "self")..],
                (false, true) => &path[1..],
                (false, false) if supers == up => &path[supers..],
                _ => continue,
            };
            let Some(first) = rest.first() else { continue };
            let target = if names.contains(first) {
                first.clone()
            } else {
                match handed_on.get(first) {
                    Some(from) => from.clone(),
                    None if is_own(&name) => continue,
                    // Something that the folder's own file defines.
                    None => "mod".to_owned(),
                }
            };
            if target != name {
                used.insert(target);
            }
        }
    }
    edges
}
