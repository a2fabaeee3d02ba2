//! One lock on five servers: this project's client and redsync, with servers down and with a stalled holder.

mod stall;
mod time;

use testbed::Server;

use crate::contenders::languages;
use crate::part::Part;
use crate::scale::Scale;
use crate::servers::Program;

const SERVERS: usize = 5;

/// A client library that takes locks on five servers, in its own process: its language, its way, and its name.
type Way = (&'static str, &'static str, &'static str);

const WAYS: [Way; 3] = [
    ("rust", "quorum", "Rust: this project's quorum"),
    // With its defaults: it waits for every server's answer, and go-redis retries a server that is down.
    ("go", "redsync", "Go: redsync"),
    // Without either.
    ("go", "redsync-quick", "Go: redsync, set to be quick"),
];

pub(crate) fn measure(program: &Program, scale: Scale) -> Part {
    let languages = languages(&["rust", "go"]);
    let mut part = Part::default();
    if let Ok(go) = &languages["go"] {
        part.facts.push(format!("quorum: {}", go.versions));
    }
    part.tables.push(time::table(program, scale, &languages));
    part.tables.push(stall::table(program, scale, &languages));
    part
}

fn servers(program: &Program) -> Vec<Server> {
    (0..SERVERS).map(|_| program.start()).collect()
}
