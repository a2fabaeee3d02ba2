//! The servers of the benchmark, and what is done on them around the measurements.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redis::{Cmd, Connection, ConnectionLike, Value};
use testbed::{Builder, Expect, Server, blocked_clients, cmd, eventually, module, server_cpu};

/// Open files besides one for each client: here, and in the server.
const OTHER_FILES: usize = 200;
/// Between two PINGs.
const PAUSE: Duration = Duration::from_millis(5);

/// A server that can be started.
#[derive(Clone)]
pub(crate) struct Program {
    path: PathBuf,
    /// For example `Redis 7.0.15`.
    pub(crate) version: String,
}

impl Program {
    /// The one of `REDIS_SERVER`, or in the search path.
    pub(crate) fn installed() -> Result<Self, String> {
        Self::at(module::server_program())
    }

    /// One of the servers that the module is tested on, downloaded at the first use.
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        let output = Command::new("scripts/servers.sh")
            .arg(name)
            .current_dir(module::root())
            .output()
            .map_err(|error| format!("servers.sh: {error}"))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            let reason = text.lines().last().unwrap_or("no reason given");
            return Err(reason.to_owned());
        }
        Self::at(String::from_utf8_lossy(&output.stdout).trim().into())
    }

    fn at(path: PathBuf) -> Result<Self, String> {
        let output = Command::new(&path).arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}", path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = text.split(' ');
        let kind = words.next().unwrap_or_default();
        let number = words.find_map(|word| word.strip_prefix("v="));
        let number = number.ok_or_else(|| format!("not a server: {}", path.display()))?;
        let version = format!("{kind} {number}");
        Ok(Self { path, version })
    }

    pub(crate) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Whether it is of this line, such as `Redis 7.0`.
    pub(crate) fn is(&self, line: &str) -> bool {
        self.version.starts_with(&format!("{line}."))
    }

    /// A builder, for further settings.
    pub(crate) fn builder(&self) -> Builder {
        Server::builder()
            .program(&self.path)
            .config("hz", "10")
            .config("dynamic-hz", "no")
    }

    /// For so many clients, of which the module lets three quarters wait.
    pub(crate) fn builder_for(&self, clients: usize) -> Builder {
        let max = clients * 4 / 3 + OTHER_FILES;
        self.builder().config("maxclients", &max.to_string())
    }

    /// A server with default settings.
    pub(crate) fn start(&self) -> Server {
        started(self.builder())
    }
}

/// The readers of a server's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    /// Nobody.
    Plain,
    /// An append-only file, which goes to the disk every second.
    AppendOnly,
    /// A replica.
    Replica,
}

impl Setting {
    pub(crate) const ALL: [Self; 3] = [Self::Plain, Self::AppendOnly, Self::Replica];

    /// Behind what is measured.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "no AOF, no replica",
            Self::AppendOnly => "AOF, everysec",
            Self::Replica => "with a replica",
        }
    }

    /// The server's part of the setting.
    pub(crate) fn of(self, builder: Builder) -> Builder {
        let is_written = self == Self::AppendOnly;
        builder
            .config("appendonly", if is_written { "yes" } else { "no" })
            .config("appendfsync", "everysec")
            .config("auto-aof-rewrite-percentage", "0")
    }

    /// The replica, where one belongs to the setting.
    pub(crate) fn replica_of(self, server: &Server, program: &Program) -> Option<Server> {
        (self == Self::Replica)
            .then(|| server.replica_with(|settings| settings.program(program.path())))
    }
}

/// Starts a server whose module knows that nobody reads its stream.
pub(crate) fn started(builder: Builder) -> Server {
    let server = builder.start();
    settle(&server);
    server
}

/// Lets the module find out that nobody reads its stream. It checks in every tenth run of the server's
/// cron, and cannot be asked for the result.
pub(crate) fn settle(server: &Server) {
    let mut connection = server.connection();
    cmd!(connection, "CONFIG", "SET", "hz", 200).okay();
    thread::sleep(Duration::from_millis(300));
    cmd!(connection, "CONFIG", "SET", "hz", 10).okay();
}

/// The CPU time of the server's main thread during `work`, in nanoseconds.
pub(crate) fn cpu_of(server: &Server, work: impl FnOnce()) -> f64 {
    let before = server_cpu(server.pid());
    work();
    let spent = server_cpu(server.pid()).saturating_sub(before);
    spent.as_nanos() as f64
}

/// The longest PING, in two ways, both in milliseconds.
#[derive(Clone, Copy)]
pub(crate) struct Longest {
    /// From the call to the reply, the machine's other work included.
    pub(crate) time: f64,
    /// The most CPU that the server's main thread used between a call and its reply: how long the server
    /// itself held a client up, however busy the machine is. While it runs the kernel counts only at its
    /// ticks, so this may be off by one, which is some milliseconds.
    pub(crate) server: f64,
    /// The CPU of the server's main thread for the work and the PINGs, in nanoseconds.
    pub(crate) spent: f64,
}

/// The longest PING of a client of its own during `work`.
pub(crate) fn longest_ping_while(server: &Server, work: impl FnOnce()) -> Longest {
    let done = AtomicBool::new(false);
    let mut pinger = server.connection();
    thread::scope(|scope| {
        let longest = scope.spawn(|| {
            let (mut time, mut used) = (Duration::ZERO, Duration::ZERO);
            while !done.load(Ordering::Relaxed) {
                let before = server_cpu(server.pid());
                let start = Instant::now();
                cmd!(pinger, "PING").value();
                time = time.max(start.elapsed());
                used = used.max(server_cpu(server.pid()).saturating_sub(before));
                thread::sleep(PAUSE);
            }
            [time, used].map(|longest| longest.as_secs_f64() * 1000.0)
        });
        let spent = cpu_of(server, work);
        done.store(true, Ordering::Relaxed);
        let [time, server] = longest.join().expect("a pinger");
        Longest {
            time,
            server,
            spent,
        }
    })
}

/// Sends packed commands at once and receives all replies, none of which may be an error or nil.
fn send_packed(connection: &mut Connection, packed: &[u8], count: usize) {
    let replies = connection
        .req_packed_commands(packed, 0, count)
        .expect("replies");
    assert_eq!(replies.len(), count);
    let bad = replies
        .iter()
        .find(|reply| matches!(reply, Value::Nil | Value::ServerError(_)));
    assert!(bad.is_none(), "refused: {bad:?}");
}

/// Commands that are sent to a server again and again.
pub(crate) struct Batch<'a> {
    server: &'a Server,
    connection: Connection,
    commands: Vec<Vec<u8>>,
    all: Vec<u8>,
}

impl<'a> Batch<'a> {
    pub(crate) fn new(server: &'a Server, commands: impl IntoIterator<Item = Cmd>) -> Self {
        let commands = commands.into_iter().map(|cmd| cmd.get_packed_command());
        let commands: Vec<_> = commands.collect();
        Self {
            server,
            connection: server.connection(),
            all: commands.concat(),
            commands,
        }
    }

    /// Sends them at once.
    pub(crate) fn send(&mut self) {
        send_packed(&mut self.connection, &self.all, self.commands.len());
    }

    /// The CPU time of the server's main thread when they are sent at once, in nanoseconds.
    pub(crate) fn cost(&mut self) -> f64 {
        cpu_of(self.server, || self.send())
    }

    /// The same, but each is sent after the reply to the one before.
    pub(crate) fn lone_cost(&mut self) -> f64 {
        cpu_of(self.server, || {
            for command in &self.commands {
                send_packed(&mut self.connection, command, 1);
            }
        })
    }
}

/// Sends the command of each number, in batches.
pub(crate) fn for_each(
    connection: &mut Connection,
    numbers: std::ops::Range<usize>,
    command: impl Fn(usize) -> Cmd,
) {
    for_each_in(connection, numbers, 1000, command);
}

/// As [`for_each`], in batches of this size: the server runs much of a batch before it serves anybody else.
pub(crate) fn for_each_in(
    connection: &mut Connection,
    numbers: std::ops::Range<usize>,
    size: usize,
    command: impl Fn(usize) -> Cmd,
) {
    for first in numbers.clone().step_by(size) {
        let last = numbers.end.min(first + size);
        let packed = (first..last).map(|number| command(number).get_packed_command());
        send_packed(
            connection,
            &packed.collect::<Vec<_>>().concat(),
            last - first,
        );
    }
}

/// A server, and its clients with a connection each.
pub(crate) struct Crowd {
    pub(crate) server: Server,
    pub(crate) clients: Vec<Connection>,
}

impl Crowd {
    pub(crate) fn of(program: &Program, clients: usize) -> Self {
        let server = started(program.builder_for(clients));
        let clients = (0..clients).map(|_| server.connection()).collect();
        Self { server, clients }
    }

    /// Waits until so many calls are blocked.
    pub(crate) fn until_blocked(&self, calls: usize) {
        let all = || blocked_clients(&self.server) as usize == calls;
        eventually(all, "all to wait");
    }
}

/// How many clients may be connected at once here, each an open file of this program and one of the server.
pub(crate) fn clients_allowed() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"));
    let files = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    files.map_or(usize::MAX, |files| {
        files.saturating_sub(OTHER_FILES) * 3 / 4
    })
}
