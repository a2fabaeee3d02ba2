//! Programs of contenders for locks: this one ([`rust`]) and those of benches/.
//!
//! The arguments of each are the ports of the servers, the way of locking, the locks' key, how many contenders for how many
//! locks, how many milliseconds each holds a lock, and then rests, the lease, and the port of the register if there is one:
//! then a holder says "held" when it has the lock, and writes after the next line. A program says "ready" when it is
//! connected. Each line of its input is the seconds of a turn, which it answers with a line of JSON ([`Turn`]). So several
//! programs can take short turns, and the server can be measured around each.

pub(crate) mod rust;
mod turn;

use std::collections::BTreeMap;
use std::env;
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use testbed::module::root;
use testbed::{Child, Server, Signal};

use crate::facts::{output, target_folder};
use crate::ways::LEASE_MS;
pub(crate) use turn::Turn;

/// How long a program may take to start, and to finish after the time is up.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The programs of contenders by their language; of a language that is left out, why.
pub(crate) type Languages = BTreeMap<&'static str, Result<Language, String>>;

/// Builds these, as far as they are installed.
pub(crate) fn languages(names: &[&'static str]) -> Languages {
    let languages = names.iter().map(|name| (*name, Language::build(name)));
    languages.collect()
}

/// The program of a language.
pub(crate) struct Language {
    /// The versions of the language and of the libraries.
    pub(crate) versions: String,
    program: PathBuf,
    /// The argument that lets this program be it.
    role: Option<&'static str>,
}

impl Language {
    fn build(name: &str) -> Result<Self, String> {
        if name == "rust" {
            return Ok(Self {
                versions: output("rustc", &["--version"]),
                program: env::current_exe().map_err(|error| error.to_string())?,
                role: Some(rust::ROLE),
            });
        }
        eprintln!("building the contenders in {name}");
        let folder = target_folder().join(name);
        let built = Command::new(root().join("benches/build.sh"))
            .arg(name)
            .arg(&folder)
            .output()
            .map_err(|error| format!("build.sh: {error}"))?;
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        if !built.status.success() {
            let why = text(&built.stderr);
            eprintln!("{why}");
            return Err(why.lines().last().unwrap_or("it failed").to_owned());
        }
        Ok(Self {
            versions: text(&built.stdout),
            program: folder.join("contenders"),
            role: None,
        })
    }
}

/// The task of a process: so many contenders, each of which repeatedly acquires its lock, holds it and releases it.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) language: &'a str,
    pub(crate) way: &'a str,
    /// The name of each lock, before its number. Logs have this name too.
    pub(crate) key: &'a str,
    pub(crate) contenders: usize,
    pub(crate) locks: usize,
    /// How long each holds a lock, and then rests.
    pub(crate) held_ms: u32,
    /// Zero for the library's own way to keep a lock.
    pub(crate) lease_ms: u32,
    /// Where each holder writes, when it is told to, before it releases: ways of locking on several servers only.
    pub(crate) register: Option<&'a Server>,
}

impl Task<'_> {
    /// One contender for one lock.
    pub(crate) const ALONE: Task<'static> = Task {
        language: "rust",
        way: "client",
        key: "lock",
        contenders: 1,
        locks: 1,
        held_ms: 0,
        lease_ms: LEASE_MS,
        register: None,
    };
}

/// Processes of contenders that take their turns together.
pub(crate) struct Team(Vec<Process>);

impl Team {
    /// Starts so many for locks on these servers; they are connected then.
    pub(crate) fn start(
        languages: &Languages,
        processes: usize,
        servers: &[Server],
        task: &Task<'_>,
    ) -> Result<Self, String> {
        let language = languages[task.language].as_ref().map_err(Clone::clone)?;
        let port = |server: &Server| server.port().to_string();
        let ports: Vec<String> = servers.iter().map(port).collect();
        let counts = [task.contenders, task.locks].map(|count| count.to_string());
        let times = [task.held_ms, task.lease_ms].map(|ms| ms.to_string());
        let start = |number| {
            let mut command = Command::new(&language.program);
            command
                .args(language.role)
                .args([&ports.join(","), task.way, task.key])
                .args(&counts)
                .args(&times)
                .args(task.register.map(port));
            Process::start(&mut command, &format!("{}-{number}", task.key))
        };
        let all: Vec<_> = (0..processes).map(start).collect::<Result<_, _>>()?;
        let team = Self(all);
        team.expect("ready")?;
        Ok(team)
    }

    /// Waits until each process has said this.
    pub(crate) fn expect(&self, line: &str) -> Result<(), String> {
        self.0.iter().try_for_each(|process| {
            let answer = process.receive(TIMEOUT)?;
            let is_it = answer == line;
            is_it
                .then_some(())
                .ok_or_else(|| format!("it says {answer:?}"))
        })
    }

    /// Lets a turn begin.
    pub(crate) fn begin(&self, seconds: f64) -> Result<(), String> {
        self.tell(&seconds.to_string())
    }

    pub(crate) fn tell(&self, line: &str) -> Result<(), String> {
        self.0.iter().try_for_each(|process| process.send(line))
    }

    /// The turn that has begun, when it has ended.
    pub(crate) fn end(&self, seconds: f64) -> Result<Turn, String> {
        let turns = self.0.iter().map(|process| {
            let text = process.receive(TIMEOUT + Duration::from_secs_f64(seconds))?;
            serde_json::from_str(&text).map_err(|error| format!("{error} in {text:.200?}"))
        });
        Ok(Turn::of(turns.collect::<Result<_, String>>()?))
    }

    /// Each process as a team of its own.
    pub(crate) fn alone(self) -> Vec<Self> {
        self.0
            .into_iter()
            .map(|process| Self(vec![process]))
            .collect()
    }

    /// Sends the processes a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        for process in &self.0 {
            process.child.signal(signal);
        }
    }

    /// The ids of the processes.
    pub(crate) fn ids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|process| process.child.id())
    }
}

/// A child process that reads its orders from lines of its standard input, and answers with lines. It is killed when this
/// is dropped.
struct Process {
    child: Child,
    lines: Receiver<String>,
    /// Its standard error.
    log: PathBuf,
}

impl Process {
    /// Starts it; its standard error goes to a log of this name.
    fn start(command: &mut Command, name: &str) -> Result<Self, String> {
        let log = target_folder().join(format!("{name}.log"));
        let errors = File::create(&log).map_err(|error| format!("a log: {error}"))?;
        let started = Child::start(command.stderr(errors));
        let (child, lines) = started.map_err(|error| format!("it does not start: {error}"))?;
        Ok(Self { child, lines, log })
    }

    fn send(&self, line: &str) -> Result<(), String> {
        let sent = self.child.write(line);
        sent.map_err(|_| format!("it has ended; {} may say why", self.log.display()))
    }

    fn receive(&self, timeout: Duration) -> Result<String, String> {
        let line = self.lines.recv_timeout(timeout);
        line.map_err(|_| format!("no answer; {} may say why", self.log.display()))
    }
}
