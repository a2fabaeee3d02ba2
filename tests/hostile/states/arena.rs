//! A server, and an honest client that looks at it: what must be so whatever others do.

use super::catalogue::LIBRARY;
use crate::invariants::check_log;
use crate::resp::Answer;
use crate::wire::Wire;
use crate::*;
use redis::{Cmd, Value};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use testbed::{LockInfo, blocked_clients, line, patience, within};

/// How long anything may take that must come about: longer is a hang.
const BOUND: Duration = Duration::from_secs(20);
/// By how much the server's memory may have grown in the end: its own caches and buffers, and what
/// the allocator has not given back.
const MEMORY_LEFT: i64 = 4 << 20;

/// The same where the servers are slow.
pub(crate) fn bound() -> Duration {
    patience(BOUND)
}

/// What a server is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Plain,
    Threads,
    Cluster,
}

pub(crate) struct Arena {
    pub(crate) server: Server,
    /// More than one. A cluster may have them too, and has not unless it is told.
    pub(crate) has_databases: bool,
    witness: Wire,
    /// Invalidations are sent to it.
    _listener: Wire,
    pub(crate) listener: String,
    pid: String,
    memory: i64,
}

/// A client as the server lists it.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) id: String,
    pub(crate) flags: String,
    /// Its last command.
    pub(crate) command: String,
}

impl Client {
    pub(crate) fn waits(&self) -> bool {
        self.command == "lock.acquire" && self.flags.contains('b')
    }

    /// This was its last command, and is done.
    pub(crate) fn is_at(&self, command: &str) -> bool {
        self.command == command && !self.flags.contains('b')
    }

    /// It is to be closed when its reply is sent.
    pub(crate) fn closes(&self) -> bool {
        self.flags.contains('c')
    }
}

impl Arena {
    pub(crate) fn start(setting: Setting) -> Self {
        let mut builder = Server::builder()
            .config("client-output-buffer-limit", "normal 512kb 0 0")
            .config("notify-keyspace-events", "KEA");
        builder = match setting {
            Setting::Plain => builder,
            Setting::Threads if Server::version().number < (8, 0, 0) => builder
                .config("io-threads", "3")
                .config("io-threads-do-reads", "yes"),
            Setting::Threads => builder.config("io-threads", "3"),
            Setting::Cluster => builder.config("cluster-enabled", "yes"),
        };
        let server = builder.start();
        let mut listener = Wire::to(&server);
        let Ok(Value::Int(id)) = listener.ask(&[line("CLIENT ID")]).remove(0) else {
            panic!("a client without a number");
        };
        let mut witness = Wire::to(&server);
        if setting == Setting::Cluster {
            let slots = line("CLUSTER ADDSLOTSRANGE 0 16383");
            witness.ask(&[slots]).remove(0).expect("slots");
            let mut info = || witness.ask(&[line("CLUSTER INFO")]).remove(0);
            let mut is_up = || info().is_ok_and(|info| info.text().contains("cluster_state:ok"));
            within(BOUND, &mut is_up, "a cluster of one to be up");
        }
        let mut arena = Self {
            pid: server.pid().to_string(),
            listener: id.to_string(),
            has_databases: setting != Setting::Cluster,
            server,
            witness,
            _listener: listener,
            memory: 0,
        };
        arena.furnish();
        arena.memory = arena.server.used_memory();
        arena
    }

    fn furnish(&mut self) {
        let mut library = redis::cmd("FUNCTION");
        library.arg("LOAD").arg(LIBRARY);
        let set = |key, size| redis::cmd("SET").arg(key).arg(vec![b'v'; size]).to_owned();
        let commands = [
            library,
            set("large", 100_000),
            set("huge", 1_000_000),
            line("ACL SETUSER able on >able ~* &* +@all"),
            line("ACL SETUSER unable on >unable ~* &* -@all +auth +hello +lock.acquire +lock.info"),
            line("ACL SETUSER elsewhere on >elsewhere ~elsewhere &* +@all"),
        ];
        for answer in self.ask(&commands) {
            answer.expect("a furnished server");
        }
    }

    /// What the honest client is answered.
    pub(crate) fn ask(&mut self, commands: &[Cmd]) -> Vec<Answer> {
        self.witness.ask(commands)
    }

    pub(crate) fn ask_one(&mut self, command: &str) -> Answer {
        self.ask(&[line(command)]).remove(0)
    }

    /// Asks again and again until it is so. Says what was not.
    #[track_caller]
    pub(crate) fn until(&mut self, mut look: impl FnMut(&mut Self) -> Result<(), String>) {
        let start = Instant::now();
        while let Err(what) = look(self) {
            assert!(start.elapsed() < bound(), "in vain was it waited: {what}");
            std::thread::sleep(Duration::from_micros(500));
        }
    }

    /// The server's clients, by address.
    pub(crate) fn clients(&mut self) -> HashMap<String, Client> {
        let Ok(Value::BulkString(list)) = self.ask_one("CLIENT LIST") else {
            panic!("a list expected");
        };
        let list = String::from_utf8_lossy(&list);
        let clients = list.lines().map(|row| {
            let field = |name: &str| {
                let mut fields = row.split(' ').filter_map(|field| field.split_once('='));
                let found = fields.find(|(found, _)| *found == name);
                found.map_or_else(String::new, |(_, value)| value.to_owned())
            };
            let client = Client {
                id: field("id"),
                flags: field("flags"),
                command: field("cmd"),
            };
            (field("addr"), client)
        });
        clients.collect()
    }

    /// All that was sent on connections that are closed by now has been read by the server.
    pub(crate) fn catch_up(&mut self) {
        for _ in 0..2 {
            let mut fresh = Wire::to(&self.server);
            fresh.ask(&[line("PING")]).remove(0).expect("a PONG");
        }
    }

    /// What these keys of a database hold: nothing, where it is no lock.
    pub(crate) fn locks(&mut self, database: i64, keys: &[String]) -> Vec<Option<LockInfo>> {
        let answers = self.of_each("LOCK.INFO", database, keys);
        let look = |answer: Answer| match answer {
            Ok(Value::Nil) | Err(_) => None,
            Ok(value) => Some(LockInfo::try_from(value).expect("a lock's fields")),
        };
        answers.into_iter().map(look).collect()
    }

    /// The clients that wait for each of these keys, by number.
    pub(crate) fn waiters(&mut self, database: i64, keys: &[String]) -> Vec<Vec<String>> {
        let answers = self.of_each("LOCK.WAITERS", database, keys);
        // An error where the key holds another type.
        let waiters = |answer: Answer| answer.map_or_else(|_| Vec::new(), clients_of);
        answers.into_iter().map(waiters).collect()
    }

    /// Takes those of these locks that somebody waits for from their holders. The keys that were
    /// waited for.
    pub(crate) fn free_waited(&mut self, database: i64, keys: &[String]) -> Vec<String> {
        let waiters = self.waiters(database, keys);
        let locks = self.locks(database, keys);
        let mut commands = vec![line(&format!("SELECT {database}"))];
        let mut waited = Vec::new();
        for ((key, waiters), lock) in keys.iter().zip(waiters).zip(locks) {
            if waiters.is_empty() {
                continue;
            }
            waited.push(key.clone());
            commands.extend(lock.map(|lock| release(key, &lock)));
        }
        commands.push(line("SELECT 0"));
        self.ask(&commands);
        waited
    }

    fn of_each(&mut self, name: &str, database: i64, keys: &[String]) -> Vec<Answer> {
        let mut commands = vec![line(&format!("SELECT {database}"))];
        commands.extend(keys.iter().map(|key| line(&format!("{name} {key}"))));
        commands.push(line("SELECT 0"));
        let mut answers = self.ask(&commands);
        answers.pop();
        answers.remove(0).expect("a database");
        answers
    }

    /// Nobody waits when all connections are closed, and a new one is served.
    pub(crate) fn check_deserted(&mut self) {
        self.catch_up();
        self.until(|arena| {
            let waiting = arena.server.count("waiting");
            let blocked = blocked_clients(&arena.server);
            if (waiting, blocked) == (0, 0) {
                return Ok(());
            }
            let what = "calls wait, and so many are blocked, of nobody";
            Err(format!("{waiting} {what}: {blocked}"))
        });
        let pid = self.server.info_field("server", "process_id");
        assert_eq!(pid, self.pid, "the same process");
    }

    /// No crash was logged, and memory is where it was.
    pub(crate) fn check_end(&mut self) {
        check_log(&self.server);
        self.ask_one("FLUSHALL").expect("an empty server");
        let before = self.memory;
        self.until(|arena| {
            let after = arena.server.used_memory();
            if after < before + MEMORY_LEFT {
                return Ok(());
            }
            Err(format!("{before} bytes of memory before, {after} after"))
        });
    }
}

impl Drop for Arena {
    /// Tells where a server has crashed: the guard of the server shows the end of its log, and that is
    /// the end of a long report.
    fn drop(&mut self) {
        const LINES: usize = 45;
        let log = self.server.log();
        let report = log
            .lines()
            .skip_while(|line| !line.contains("BUG REPORT START"));
        for line in report.take(LINES) {
            eprintln!("{line}");
        }
    }
}

fn release(key: &str, lock: &LockInfo) -> Cmd {
    let mut release = redis::cmd("LOCK.RELEASE");
    release.arg(key).arg(&lock.owner).arg("ALL");
    release.arg("TOKEN").arg(lock.token).to_owned()
}

/// The clients' numbers in a reply of `LOCK.WAITERS`.
fn clients_of(waiters: Value) -> Vec<String> {
    let client = |waiter: Value| waiter.fields()["client-id"].clone().int().to_string();
    waiters.items().into_iter().map(client).collect()
}
