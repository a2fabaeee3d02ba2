//! The newcomer's tasks in CONTRIBUTING.md: each answer is a change of one file, and fits the code as it is.

use super::text;

/// The answers, each with its name.
fn tasks() -> Vec<(String, String)> {
    let contributing = text("CONTRIBUTING.md");
    let (_, tasks) = contributing
        .split_once("## A newcomer's tasks\n")
        .expect("a section of tasks");
    let links = tasks.split("](").skip(1);
    let links = links.filter_map(|link| Some(link.split_once(')')?.0.to_owned()));
    links.map(|path| (path.clone(), text(&path))).collect()
}

#[test]
fn there_is_a_task_for_each_kind_of_change() {
    assert_eq!(tasks().len(), 5);
}

/// The lines of a part of a change before it, or after it.
fn side(hunk: &str, without: char) -> String {
    let kept = hunk.lines().filter(|line| !line.starts_with(without));
    kept.fold(String::new(), |lines, line| {
        lines + line.get(1..).unwrap_or_default() + "\n"
    })
}

#[test]
fn each_answer_changes_one_file_and_fits() {
    for (name, answer) in tasks() {
        let mut hunks = answer.split("\n@@ ");
        let header = hunks.next().expect("a header");
        let path = header.rsplit_once("\n+++ b/").expect("a path").1;
        assert!(!answer.replacen("+++ ", "", 1).contains("\n+++ "), "{name}");
        let file = text(path);
        let mut count = 0;
        for hunk in hunks {
            let hunk = hunk.split_once('\n').expect("lines").1;
            let (before, after) = (side(hunk, '+'), side(hunk, '-'));
            assert_ne!(before, after, "{name}: nothing changes");
            assert!(file.contains(&before), "{name}: {path} has no\n{before}");
            count += 1;
        }
        assert!(count > 0, "{name}");
    }
}
