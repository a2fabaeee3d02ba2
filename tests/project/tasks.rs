//! The newcomer's tasks in CONTRIBUTING.md: each answer is a change of one file, and fits the code as it is.

use super::{text, told};
use std::io::Write;
use std::process::{Command, Stdio};
use testbed::module::root;

/// The tasks with their answers.
fn tasks() -> Vec<(String, String)> {
    let contributing = text("CONTRIBUTING.md");
    let (_, tasks) = contributing
        .split_once("## A newcomer's tasks\n")
        .expect("a section of tasks");
    let task = |task: &str| {
        let (name, rest) = task.split_once('\n').expect("a task");
        let answer = rest.split_once("```diff\n").expect("an answer").1;
        let answer = answer.split_once("```\n").expect("the end of an answer").0;
        (name.to_owned(), answer.to_owned())
    };
    tasks.split("\n### ").skip(1).map(task).collect()
}

#[test]
fn there_is_a_task_for_each_kind_of_change() {
    assert_eq!(tasks().len(), 5);
}

#[test]
fn each_answer_changes_one_file_and_fits() {
    for (name, answer) in tasks() {
        assert_eq!(answer.matches("\n+++ b/").count(), 1, "{name}");
        let adds = |line: &str| line.starts_with('+') && !line.starts_with("+++");
        assert!(answer.lines().any(adds), "{name}");
        let mut git = Command::new("git")
            .args(["apply", "--check", "-"])
            .current_dir(root())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("git");
        let mut input = git.stdin.take().expect("a pipe");
        input.write_all(answer.as_bytes()).expect("git reads");
        drop(input);
        let output = git.wait_with_output().expect("git ends");
        assert!(output.status.success(), "{name}: {}", told(&output));
    }
}
