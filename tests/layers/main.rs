//! The layers of `docs/design.md` as the code has them: who may use whom, and no cycle anywhere.

mod graph;
mod imports;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use graph::cycle;
use imports::Imports;
use testbed::module::root;

type Names = BTreeSet<String>;

/// The layers and what each may use, from the table in `docs/design.md`.
fn documented_layers() -> BTreeMap<String, Names> {
    let text = fs::read_to_string(root().join("docs/design.md")).expect("the document");
    let rows = text
        .lines()
        .skip_while(|line| !line.starts_with("| layer |"))
        .skip(2)
        .take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let names = |cell: &str| -> Names {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        let layer = names(cells[1]).pop_first().expect("a layer's name");
        (layer, names(cells[3]))
    })
    .collect()
}

/// The files of a folder with Rust code, but for tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        if name.ends_with("tests") || name.ends_with("checks") || name.ends_with("properties") {
            continue;
        }
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn each_layer_uses_only_what_the_design_says() {
    let documented = documented_layers();
    let source = root().join("src");
    for (layer, said) in &documented {
        let folder = source.join(layer);
        if !folder.is_dir() {
            assert_eq!(layer, "redis_lock_core", "{layer} is no folder");
            continue;
        }
        let files = sources(&folder);
        let named = files.iter().flat_map(|file| Imports::of(file).layers());
        let used: Names = named
            .filter(|name| name != layer && documented.contains_key(name))
            .collect();
        assert_eq!(&used, said, "what {layer} uses, and what the design says");
    }
    for entry in fs::read_dir(source).expect("the sources") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_string_lossy();
        let is_layer = documented.contains_key(&*name) || name == "lib.rs";
        assert!(is_layer, "{name} is not in the design");
    }
}

#[test]
fn the_layers_have_no_cycle() {
    assert_eq!(cycle(&documented_layers()), None);
}

#[test]
fn the_files_of_a_layer_have_no_cycle() {
    let mut folders: Vec<_> = documented_layers()
        .into_keys()
        .map(|layer| root().join("src").join(layer))
        .filter(|folder| folder.is_dir())
        .collect();
    folders.push(root().join("crates/core/src"));
    for folder in folders {
        let uses = imports::between_files(&folder, &sources(&folder));
        assert!(uses.len() > 1, "no files in {}", folder.display());
        assert_eq!(cycle(&uses), None, "in {}", folder.display());
    }
}

/// But for what the primary has judged: effects, and a release from the stream.
#[test]
fn only_the_waiting_layer_changes_a_lock() {
    let ways = [
        "LockKey",
        "locks::apply(",
        "locks::apply_release(",
        "locks::remove(",
    ];
    let mut found = Vec::new();
    for file in sources(&root().join("src/commands")) {
        let text = fs::read_to_string(&file).expect("a source file");
        let name = file.file_name().expect("a name").to_string_lossy();
        let ways = ways.iter().filter(|way| text.contains(**way));
        found.extend(ways.map(|way| format!("{name}: {way}")));
    }
    found.sort();
    let allowed = [
        "effects.rs: locks::apply(",
        "effects.rs: locks::remove(",
        "release.rs: locks::apply_release(",
    ];
    assert_eq!(found, allowed, "what goes past waiting::Lock");
}
