//! The pages of `docs/commands` say what the server says of each command: `COMMAND DOCS`, and the
//! categories that `documentation` holds against `COMMAND INFO` where a server has them.

use crate::documentation::{commands, docs};
use redis::Value;
use std::fs;
use std::path::PathBuf;
use testbed::{Expect, Server, started};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/commands")
}

fn read(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap_or_else(|e| panic!("docs/commands/{name}: {e}"))
}

/// What the pages say of one command: a page of its own, or a part of the page of the internal ones.
#[derive(Debug, PartialEq)]
struct Told {
    summary: String,
    syntax: String,
    since: String,
    complexity: String,
    categories: Vec<String>,
    /// What is written for the argument, and its type.
    arguments: Vec<(String, String)>,
    /// Versions and changes, the newest first.
    history: Vec<(String, String)>,
}

fn told_by_the_page(name: &str) -> Told {
    let title = title(name);
    let is_part = name.contains(['_', '|']);
    let (page, heading) = if let Some((container, _)) = name.split_once('|') {
        (read(&format!("{container}.md")), format!("\n## {title}\n"))
    } else if is_part {
        (read("internal.md"), format!("\n## {title}\n"))
    } else {
        (read(&format!("{name}.md")), format!("# {title}\n"))
    };
    let (_, text) = page
        .split_once(&heading)
        .unwrap_or_else(|| panic!("no {heading:?}"));
    let text = if is_part {
        text.split("\n## ").next().unwrap_or_default()
    } else {
        text
    };
    let mut parts = text.splitn(3, "```");
    let summary = parts.next().unwrap_or_default().trim();
    let syntax = parts.next().expect("a syntax");
    let rest = parts.next().expect("something behind the syntax");
    let row = |label: &str| {
        let rows = table(rest, "| | |");
        let found = rows.iter().find(|row| row[0] == label);
        found.unwrap_or_else(|| panic!("{name}: no {label:?}"))[1].clone()
    };
    let pair = |row: Vec<String>| (row[0].replace('`', ""), row[1].clone());
    Told {
        summary: summary.to_owned(),
        syntax: syntax.split_whitespace().collect::<Vec<_>>().join(" "),
        since: row("Available since"),
        complexity: row("Time complexity"),
        categories: sorted(
            row("ACL categories")
                .split(", ")
                .map(|word| word.replace('`', "")),
        ),
        arguments: table(rest, "| argument | type |")
            .into_iter()
            .map(pair)
            .collect(),
        history: table(rest, "| version | |").into_iter().map(pair).collect(),
    }
}

/// The name as a page writes it.
fn title(name: &str) -> String {
    name.replace('|', " ").to_uppercase()
}

/// The rows of the first table that begins with this line.
fn table(text: &str, header: &str) -> Vec<Vec<String>> {
    let lines = text.lines().skip_while(|line| !line.starts_with(header));
    let rows = lines.skip(2).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| {
        // The bar of a choice stands escaped in a table.
        let cells = line.trim_matches('|').replace("\\|", "\0");
        let cells = cells.split('|').map(|cell| cell.trim().replace('\0', "|"));
        cells.collect()
    };
    rows.map(cells).collect()
}

fn sorted(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut words: Vec<_> = words.collect();
    words.sort();
    words
}

fn told_by_the_server(c: &mut redis::Connection, name: &str, categories: &[&str]) -> Told {
    let docs = docs(c, name);
    let text = |field: &str| docs[field].clone().text();
    let arguments = docs.get("arguments").cloned();
    let arguments = arguments.map(Expect::items).unwrap_or_default();
    let mut syntax = vec![title(name)];
    syntax.extend(arguments.iter().map(argument));
    let changes = docs.get("history").cloned();
    let changes = changes.map(Expect::items).unwrap_or_default();
    let change = |entry: Value| {
        let [version, change] = entry.items().try_into().expect("a version and a change");
        (version.text(), change.text())
    };
    Told {
        summary: text("summary"),
        syntax: syntax.join(" "),
        since: text("since"),
        complexity: text("complexity"),
        categories: sorted(categories.iter().map(|word| (*word).to_owned())),
        arguments: arguments.iter().flat_map(rows).collect(),
        history: changes.into_iter().rev().map(change).collect(),
    }
}

/// An argument as the documentation of Redis writes it.
fn argument(argument: &Value) -> String {
    let fields = argument.clone().fields();
    let text = match fields["type"].clone().text().as_str() {
        "oneof" => {
            let choices = fields["arguments"].clone().items();
            choices
                .iter()
                .map(self::argument)
                .collect::<Vec<_>>()
                .join(" | ")
        }
        _ => rows(argument).remove(0).0,
    };
    let flags = fields.get("flags").map(|flags| flags.clone().items());
    if flags.is_some_and(|flags| flags.into_iter().any(|flag| flag.text() == "optional")) {
        format!("[{text}]")
    } else if text.contains(" | ") {
        format!("<{text}>")
    } else {
        text
    }
}

/// The rows of an argument in the table of a page: one, or one for each choice.
fn rows(argument: &Value) -> Vec<(String, String)> {
    let fields = argument.clone().fields();
    let text = |field: &str| fields.get(field).map(|value| value.clone().text());
    let (kind, name) = (text("type").expect("a type"), text("name").expect("a name"));
    match (kind.as_str(), text("token")) {
        ("oneof", _) => fields["arguments"]
            .clone()
            .items()
            .iter()
            .flat_map(rows)
            .collect(),
        ("pure-token", keyword) => vec![(keyword.expect("a keyword"), "flag".to_owned())],
        (_, Some(keyword)) => vec![(format!("{keyword} {name}"), kind)],
        (_, None) => vec![(name, kind)],
    }
}

#[test]
fn each_page_says_what_the_server_says() {
    let (_server, mut c) = started();
    // A page of subcommands says of their container what these are.
    let all = commands();
    let commands = all.iter().filter(|command| {
        let of_it = format!("{}|", command.name);
        !all.iter().any(|other| other.name.starts_with(&of_it))
    });
    for command in commands {
        let page = told_by_the_page(command.name);
        let server = told_by_the_server(&mut c, command.name, &command.categories);
        assert_eq!(page, server, "{}", command.name);
    }
}

#[test]
fn both_protocols_tell_the_same() {
    let server = Server::start();
    let (mut two, mut three) = (server.connection(), server.connection_resp3());
    for command in commands() {
        let told = |c| told_by_the_server(c, command.name, &command.categories);
        assert_eq!(told(&mut two), told(&mut three), "{}", command.name);
    }
}

#[test]
fn the_index_and_the_readme_name_each_command_and_there_is_no_other_page() {
    let index = read("README.md");
    let readme = fs::read_to_string(folder().join("../../README.md")).expect("README.md");
    let mut pages = vec!["README.md".to_owned(), "internal.md".to_owned()];
    for command in commands() {
        let title = command.name.to_uppercase();
        if command.name.contains('_') {
            assert!(index.contains(&title), "{title}");
        } else if !command.name.contains('|') {
            let page = format!("{}.md", command.name);
            assert!(index.contains(&format!("[{title}]({page})")), "{title}");
            let link = format!("[`{title}`](docs/commands/{page})");
            assert!(readme.contains(&link), "{title}");
            pages.push(page);
        }
    }
    let files = fs::read_dir(folder()).expect("docs/commands");
    let files = files.map(|file| file.expect("a file").file_name().into_string());
    let files = sorted(files.map(|name| name.expect("a name")));
    assert_eq!(files, sorted(pages.into_iter()));
}
