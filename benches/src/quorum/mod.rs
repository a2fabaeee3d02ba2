//! One lock on five servers: this project's client beside redsync, with servers down, and when a
//! holder stalls.

mod holder;
mod stall;
mod time;

use std::process::Command;

use testbed::Server;

use crate::part::Part;
use crate::process::Process;
use crate::scale::Scale;
use crate::servers::Program;
use crate::toolchains::{self, Language};

pub(crate) use holder::{ROLE, hold};

const SERVERS: usize = 5;

/// Somebody who takes locks on five servers, in a process of its own.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Ours,
    /// As it ships: it waits for every server's answer, and go-redis tries a server that is down several
    /// times, with pauses.
    Redsync,
    /// Set to be quick where a server is down: neither of that.
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
    /// A process that takes locks in this way on these servers, and writes to the register on another
    /// one.
    fn start(
        self,
        servers: &[Server],
        register: &Server,
        go: &Result<Language, String>,
        name: &str,
    ) -> Result<Process, String> {
        let mut command = match self {
            Self::Ours => {
                let program = std::env::current_exe().map_err(|error| error.to_string())?;
                let mut command = Command::new(program);
                command.arg(ROLE);
                command
            }
            Self::Redsync | Self::RedsyncQuick => {
                let mut command = go.as_ref().map_err(Clone::clone)?.command();
                command.arg(if self == Self::Redsync {
                    "quorum"
                } else {
                    "quorum-quick"
                });
                command
            }
        };
        command.arg(register.port().to_string());
        command.args(servers.iter().map(|server| server.port().to_string()));
        Process::start(&mut command, name)
    }
}
