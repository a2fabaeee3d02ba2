//! The settings that a server is started with, and which server it is.

use super::Server;
use crate::module::{self, server_program};
use crate::{Expect, run};
use redis::Connection;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// How a server is to be set up; see [`Server::builder`].
#[derive(Clone, Default)]
pub struct Builder {
    pub(super) sentinel: bool,
    pub(super) own_process_group: bool,
    pub(super) program: Option<PathBuf>,
    without_module: bool,
    module_path: Option<PathBuf>,
    module_args: String,
    lines: Vec<(String, String)>,
    pub(super) environment: Vec<(String, String)>,
}

impl Builder {
    /// Adds a line to the server's redis.conf, as it stands there; a later line of the same name
    /// wins. An empty value is written as `""`.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.lines.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets a variable in the environment of the server's process.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds words to the `loadmodule` line.
    #[must_use]
    pub fn module_args(mut self, args: &str) -> Self {
        args.clone_into(&mut self.module_args);
        self
    }

    /// Loads the module from this file, such as a copy that stands for another version.
    #[must_use]
    pub fn module_path(mut self, path: &Path) -> Self {
        self.module_path = Some(path.to_owned());
        self
    }

    /// Runs this server, not the one that `REDIS_SERVER` or the search path gives. It may also be a
    /// script that ends by becoming one (`exec`).
    #[must_use]
    pub fn program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = Some(program.into());
        self
    }

    /// Leaves the module out: a server as it comes.
    #[must_use]
    pub fn without_module(mut self) -> Self {
        self.without_module = true;
        self
    }

    /// Loads the module after all: the opposite of [`Self::without_module`].
    #[must_use]
    pub fn with_module(mut self) -> Self {
        self.without_module = false;
        self
    }

    /// Keeps the Ctrl-C of a terminal from the server's process: who started it stops it.
    #[must_use]
    pub fn own_process_group(mut self) -> Self {
        self.own_process_group = true;
        self
    }

    /// The server as a Sentinel, and with none of the settings given so far: those are a server's.
    #[must_use]
    pub(crate) fn sentinel(mut self) -> Self {
        self.sentinel = true;
        self.lines.clear();
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Panics
    /// With the server's log, when it does not start.
    #[track_caller]
    pub fn start(self) -> Server {
        self.try_start()
            .unwrap_or_else(|log| panic!("the server did not start:\n{log}"))
    }

    /// As [`Self::start`], and a connection to the server.
    #[track_caller]
    pub fn started(self) -> (Server, Connection) {
        let server = self.start();
        let c = server.connection();
        (server, c)
    }

    /// The same, where `a` holds `k`.
    #[track_caller]
    pub fn held(self) -> (Server, Connection) {
        let (server, mut c) = self.started();
        run(&mut c, "LOCK.ACQUIRE k a PX 600000").grant();
        (server, c)
    }

    /// As [`Self::start`]; the log when the server refuses to start.
    pub fn try_start(self) -> Result<Server, String> {
        Server::launch(self)
    }

    /// The text of redis.conf. What tests set comes last and so wins.
    pub(super) fn conf(&self, port: u16) -> String {
        let mut lines = vec![format!("port {port}"), "bind 127.0.0.1".to_owned()];
        if !self.sentinel {
            lines.extend([
                "save \"\"".to_owned(),
                "enable-debug-command yes".to_owned(),
                // A diskless sync can wait a second for the replica's first word.
                "repl-diskless-sync no".to_owned(),
                // What is answered is in the append-only file, also of a process that is killed: by default the
                // write waits while an earlier one is on its way to the disk.
                "appendfsync no".to_owned(),
            ]);
            if !self.without_module {
                let module = self
                    .module_path
                    .as_deref()
                    .unwrap_or_else(|| module::path())
                    .display();
                lines.push(format!("loadmodule \"{module}\" {}", self.module_args));
            }
        }
        lines.extend(self.lines.iter().map(|(name, value)| {
            let value = if value.is_empty() { "\"\"" } else { value };
            format!("{name} {value}")
        }));
        lines.join("\n") + "\n"
    }
}

/// The two families of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Redis.
    Redis,
    /// Valkey, which forked from Redis 7.2.
    Valkey,
}

/// Which server runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Whose numbers these are.
    pub kind: Kind,
    /// Major, minor, patch.
    pub number: (u32, u32, u32),
}

impl Version {
    /// Whether this is a Redis of this version or a later one. Never true of a Valkey.
    pub fn is_redis_from(self, major: u32, minor: u32) -> bool {
        self.kind == Kind::Redis && self.number >= (major, minor, 0)
    }

    /// Whether this server puts a module's commands into categories.
    pub fn has_module_categories(self) -> bool {
        self.is_redis_from(7, 4) || self.is_valkey_from(8, 0)
    }

    /// Whether this is a Valkey of this version or a later one. Never true of a Redis.
    pub fn is_valkey_from(self, major: u32, minor: u32) -> bool {
        self.kind == Kind::Valkey && self.number >= (major, minor, 0)
    }
}

/// Which server [`server_program`] is. From its own word, because a Valkey's `INFO` calls itself Redis
/// 7.2.4 for the sake of old clients.
pub(super) fn version() -> Version {
    static VERSION: OnceLock<Version> = OnceLock::new();
    *VERSION.get_or_init(|| {
        let output = Command::new(server_program()).arg("--version").output();
        let output = output.unwrap_or_else(|e| panic!("{}: {e}", server_program().display()));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        parse_version(&text).unwrap_or_else(|| panic!("not a server's version: {text:?}"))
    })
}

/// Reads `Redis server v=7.0.15 sha=...`.
fn parse_version(text: &str) -> Option<Version> {
    let kind = match text.split(' ').next()? {
        "Redis" => Kind::Redis,
        "Valkey" => Kind::Valkey,
        _ => return None,
    };
    let words = text.split(' ').find_map(|word| word.strip_prefix("v="))?;
    let mut numbers = words.split('.').map(|n| n.parse().ok());
    let number = (numbers.next()??, numbers.next()??, numbers.next()??);
    Some(Version { kind, number })
}
