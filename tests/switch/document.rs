//! What docs/operations/switching.md tells an operator to type.

use std::fs;
use std::process::Command;
use testbed::Server;
use testbed::module::root;

const DOCUMENT: &str = "docs/operations/switching.md";
/// What comes first, whatever the servers: who is who, and how to speak to them.
const FIRST: &str = "## Before you begin";

/// Types what stands under this heading, with other servers in the place of those that are named there,
/// and prints what is answered.
#[track_caller]
pub(crate) fn follow(heading: &str, names: &[(&str, String)]) {
    run(heading, &blocks(heading).concat(), names);
}

/// As [`follow`], the first block of commands alone.
#[track_caller]
pub(crate) fn begin(heading: &str, names: &[(&str, String)]) {
    run(heading, &blocks(heading)[0], names);
}

#[track_caller]
fn run(heading: &str, commands: &str, names: &[(&str, String)]) {
    let mut script = blocks(FIRST).concat();
    for (name, value) in names {
        assert!(script.contains(&format!("{name}=")), "{name} in {DOCUMENT}");
        script.extend([name, "='", value, "'\n"]);
    }
    script += commands;
    println!("{script}");
    let output = Command::new("sh").args(["-euc", &script]).output();
    let output = output.expect("sh starts");
    let said = [output.stdout, output.stderr].concat();
    println!("{}", String::from_utf8_lossy(&said));
    assert!(output.status.success(), "the commands under {heading:?}");
}

/// A server as the document names it.
pub(crate) fn name(server: &Server) -> String {
    format!("127.0.0.1 {}", server.port())
}

/// The blocks of commands that stand under a heading, up to the next one.
#[track_caller]
fn blocks(heading: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(DOCUMENT)).expect(DOCUMENT);
    let mut lines = text.lines().skip_while(|line| *line != heading);
    assert!(lines.next().is_some(), "{DOCUMENT} has no {heading:?}");
    let mut blocks = Vec::new();
    let mut block: Option<String> = None;
    for line in lines {
        match (line, &mut block) {
            ("```sh", None) => block = Some(String::new()),
            ("```", Some(_)) => blocks.extend(block.take()),
            (_, Some(commands)) => commands.extend([line, "\n"]),
            (_, None) if line.starts_with('#') => break,
            _ => {}
        }
    }
    assert!(!blocks.is_empty(), "no commands under {heading:?}");
    blocks
}
