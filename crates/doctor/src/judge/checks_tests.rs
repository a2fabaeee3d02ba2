//! Tests that the checks agree with the documents.

use super::CHECKS;
use super::server::TESTED;
use super::users::RULE;
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_page_has_a_row_for_each_check_in_their_order() {
    let page = read("docs/doctor.md");
    let rows = page.lines().skip_while(|line| *line != "## The checks");
    let names = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    let documented: Vec<_> = names.collect();
    let made: Vec<_> = CHECKS.iter().map(|check| check.name).collect();
    assert_eq!(documented, made);
}

#[test]
fn each_rule_comes_from_a_part_of_a_document_that_is_there() {
    for check in CHECKS {
        let (path, anchor) = check.source.split_once('#').unwrap_or((check.source, ""));
        let text = read(path);
        let headings = text.lines().filter(|line| line.starts_with('#'));
        let slug = |line: &str| {
            let words = line.trim_start_matches('#').trim().to_lowercase();
            let kept = words
                .chars()
                .filter(|c| c.is_alphanumeric() || " -".contains(*c));
            kept.collect::<String>().replace(' ', "-")
        };
        let mut anchors = headings.map(slug);
        assert!(
            anchor.is_empty() || anchors.any(|one| one == anchor),
            "{}: {}",
            check.name,
            check.source
        );
    }
}

#[test]
fn the_rule_for_programs_is_the_manuals() {
    let rules = testbed::users::rules("application");
    assert_eq!(rules[0], format!("ACL SETUSER application {RULE}"));
}

#[test]
fn the_tested_servers_are_those_of_the_list() {
    let list = read("scripts/servers.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#'));
    let named: Vec<_> = lines
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    let ours = TESTED.map(|line| line.to_lowercase().replace(' ', "-"));
    assert_eq!(named, ours);
}
