//! The common trial of the clients: one program that puts the client of every language through the same faults
//! and judges all by the same rules.
//!
//! Each client has a worker, `clients/<language>/trial/start`, which does what one line of JSON after the other
//! says (see [`worker`]). A scenario drives one or two workers and the servers under them. What the workers
//! were told is in a [`ledger`], and is compared with what the servers say.

mod failure;
mod languages;
mod ledger;
mod limits;
mod run;
mod scenarios;
mod site;
mod stage;
mod table;
mod worker;

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use table::Table;

/// Puts the clients of all languages through the same faults.
#[derive(Parser)]
struct Options {
    /// Only this language; may be given several times.
    #[arg(long)]
    language: Vec<String>,
    /// Only this scenario; may be given several times.
    #[arg(long)]
    scenario: Vec<String>,
    /// More rounds, more locks.
    #[arg(long)]
    long: bool,
    /// The folder with the clients; the project's own if not given.
    #[arg(long)]
    clients: Option<PathBuf>,
    /// How many scenarios that only wait are run at once.
    #[arg(long, default_value_t = 8)]
    jobs: usize,
    /// Lists the scenarios.
    #[arg(long)]
    list: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let known = scenarios::ALL;
    if options.list {
        for it in known {
            println!("{:<26} {}", it.name, it.about);
        }
        return ExitCode::SUCCESS;
    }
    if let Some(name) = options
        .scenario
        .iter()
        .find(|name| known.iter().all(|it| it.name != **name))
    {
        eprintln!("there is no scenario {name}");
        return ExitCode::FAILURE;
    }
    let wanted =
        |name: &str| options.scenario.is_empty() || options.scenario.iter().any(|it| it == name);
    let scenarios: Vec<_> = known.iter().filter(|it| wanted(it.name)).collect();
    let clients = options
        .clients
        .unwrap_or_else(|| testbed::module::root().join("clients"));
    let languages = languages::all(&clients, &options.language);
    let is_there = |name: &String| {
        languages
            .iter()
            .any(|it| it.name.starts_with(name.as_str()))
    };
    if let Some(name) = options.language.iter().find(|name| !is_there(name)) {
        eprintln!(
            "there is no {}",
            clients.join(name).join("trial/start").display()
        );
        return ExitCode::FAILURE;
    }
    if languages.is_empty() {
        eprintln!("there is no worker in {}", clients.display());
        return ExitCode::FAILURE;
    }
    testbed::without_watchdog();
    std::panic::set_hook(Box::new(|_| {})); // what it would print is in the table
    limits::watch();
    let names = languages.iter().map(|it| it.name.clone()).collect();
    let rows: Vec<_> = scenarios.iter().map(|it| it.name).collect();
    let mut table = Table::new(names, &rows);
    let settings = run::Settings {
        is_long: options.long,
        jobs: options.jobs.max(1),
    };
    for (column, language) in languages.iter().enumerate() {
        run::all(language, column, &scenarios, &settings, &mut table);
    }
    if table.print() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
