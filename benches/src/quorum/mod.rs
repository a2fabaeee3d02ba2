//! One lock on five servers: this project's client and redsync, with servers down and with a stalled holder.

mod holder;
mod stall;
mod time;

use testbed::Server;

use crate::part::Part;
use crate::process::Process;
use crate::scale::Scale;
use crate::servers::Program;
use crate::toolchains::{self, Language};

pub(crate) use holder::{ROLE, hold};

const SERVERS: usize = 5;

/// A client library that takes locks on five servers, in its own process.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Ours,
    /// With its defaults: it waits for every server's answer, and go-redis retries a server that is down.
    Redsync,
    /// Set to be quick when a server is down, without either.
    RedsyncQuick,
}

const WAYS: [(Way, &str); 3] = [
    (Way::Ours, "Rust: this project's quorum"),
    (Way::Redsync, "Go: redsync"),
    (Way::RedsyncQuick, "Go: redsync, set to be quick"),
];

pub(crate) fn measure(program: &Program, scale: &Scale) -> Part {
    let go = toolchains::build("go");
    let mut part = Part::default();
    if let Ok(go) = &go {
        part.facts.push(format!("quorum: {}", go.versions));
    }
    part.tables.push(time::table(program, scale, &go));
    part.tables.push(stall::table(program, scale, &go));
    part
}

fn servers(program: &Program) -> Vec<Server> {
    (0..SERVERS).map(|_| program.start()).collect()
}

impl Way {
    /// Starts a process for locks on these servers, which writes to the register on another one.
    fn start(
        self,
        servers: &[Server],
        register: &Server,
        go: &Result<Language, String>,
        name: &str,
    ) -> Result<Process, String> {
        let own = Language::own(ROLE);
        let (language, role) = match self {
            Self::Ours => (&own, None),
            Self::Redsync => (go, Some("quorum")),
            Self::RedsyncQuick => (go, Some("quorum-quick")),
        };
        let mut command = language.as_ref().map_err(Clone::clone)?.command();
        command.args(role);
        command.arg(register.port().to_string());
        command.args(servers.iter().map(|server| server.port().to_string()));
        Process::start(&mut command, name)
    }
}
