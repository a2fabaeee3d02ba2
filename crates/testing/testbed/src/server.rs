//! A real server in a folder of its own, for as long as its guard lives.

use super::aof;
use super::probe::{eventually, patience, poll, slowness, watch_over_the_run};
use super::talk::Expect;
use crate::cmd;
use redis::{Connection, ConnectionLike, IntoConnectionInfo, ProtocolVersion, RedisConnectionInfo};
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};
use tempfile::TempDir;

mod port;
mod settings;
mod start;

pub use port::Port;
pub use settings::{Builder, Kind, Version};
use start::Failure;

/// How long a server may take to come up or to go.
const PATIENCE: Duration = Duration::from_secs(30);
/// A server that is still up this long after it was asked to go is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// How much of the log a failing test shows.
const LOG_TAIL_LINES: usize = 60;

/// A running server. Dropping it kills the process and removes its folder; in a test that fails,
/// it shows the end of its log first.
pub struct Server {
    settings: Builder,
    /// Kept while the server is down.
    port: Port,
    process: Option<Child>,
    /// How much of the log is of earlier runs.
    log_start: usize,
    dir: TempDir,
}

impl Server {
    /// A server with the module and nothing else set.
    #[track_caller]
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// To set things first.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(super) fn launch(settings: Builder) -> Result<Self, String> {
        let dir = tempfile::Builder::new()
            .prefix("redis-lock-")
            .tempdir()
            .expect("a folder");
        let mut server = Self {
            settings,
            port: Port::free(),
            process: None,
            log_start: 0,
            dir,
        };
        loop {
            server.write_conf();
            match server.run() {
                Ok(()) => return Ok(server),
                // By something that is no test bed.
                Err(Failure::PortTaken) => server.port = Port::free(),
                Err(Failure::Refused(log)) => return Err(log),
            }
        }
    }

    /// Stops the server, unless it is down already, and starts it on the same folder and port, with
    /// redis.conf as it stands there: also as `CONFIG REWRITE` has left it.
    #[track_caller]
    pub fn restart(&mut self) {
        if let Err(log) = self.try_restart() {
            panic!("the server did not start again:\n{log}");
        }
    }

    /// Its memory without what it keeps for replicas and files, which grows to a size of its own.
    #[track_caller]
    pub fn used_memory(&self) -> i64 {
        cmd!(self.connection(), "MEMORY", "PURGE").okay();
        let memory = self.info("memory");
        let bytes = |name: &str| memory[name].parse::<i64>().expect("a number");
        bytes("used_memory") - bytes("mem_total_replication_buffers") - bytes("mem_aof_buffer")
    }

    /// Restarts it with one more setting.
    #[track_caller]
    pub fn restart_with(&mut self, name: &str, value: &str) {
        self.reconfigure(|settings| settings.config(name, value));
        self.restart();
    }

    /// As [`Self::restart`]; the log of this attempt when the server refuses to start.
    pub fn try_restart(&mut self) -> Result<(), String> {
        self.stop();
        // Connections that have just ended may hold the port for a moment.
        poll(PATIENCE, || match self.run() {
            Ok(()) => Some(Ok(())),
            Err(Failure::PortTaken) => None,
            Err(Failure::Refused(log)) => Some(Err(log)),
        })
        .unwrap_or_else(|| Err(format!("port {} stays taken", self.port())))
    }

    /// Stops the server, unless it is down already, and changes what it will start with.
    #[track_caller]
    pub fn reconfigure(&mut self, change: impl FnOnce(Builder) -> Builder) -> &mut Self {
        self.stop();
        self.settings = change(self.settings.clone());
        self.write_conf();
        self
    }

    fn write_conf(&self) {
        let text = self.settings.conf(self.port());
        fs::write(self.dir().join(start::CONF), text).expect("redis.conf is written");
    }

    /// Asks the server to go, as an administrator would (`SIGTERM`: saves if save points are set),
    /// and waits for it. Does nothing when it is down; a server that has crashed fails the test.
    #[track_caller]
    pub fn stop(&mut self) {
        if self.process.is_some() {
            assert!(!self.has_ended(), "the server has ended by itself");
            // Refused while the server writes its first AOF, so it is asked again and again.
            let mut asked = None::<Instant>;
            let ended = poll(PATIENCE, || {
                if asked.is_none_or(|last| last.elapsed() > ASK_AGAIN_AFTER) {
                    self.signal("TERM");
                    asked = Some(Instant::now());
                }
                self.has_ended().then_some(())
            });
            assert!(ended.is_some(), "the server does not end");
            self.process = None;
        }
    }

    /// Kills the server with no chance to save or flush anything.
    pub fn kill9(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().expect("a process to kill");
            process.wait().expect("a process to wait for");
        }
    }

    /// Waits for the server to end by itself, as after `SHUTDOWN`.
    #[track_caller]
    pub fn wait_for_exit(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let ended = poll(PATIENCE, || process.try_wait().expect("a child's state"));
        assert!(ended.is_some(), "the server does not end");
        self.process = None;
    }

    /// Sends the process a signal, such as `STOP` and `CONT` for a server that hangs a while.
    #[track_caller]
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.pid());
        let sent = Command::new("sh")
            .args(["-c", &kill])
            .status()
            .expect("sh starts");
        assert!(sent.success(), "{kill}");
    }

    /// The running process.
    #[track_caller]
    pub fn pid(&self) -> u32 {
        self.process.as_ref().expect("a running server").id()
    }

    /// The loopback port, the same after a restart.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// The folder with the server's data and log.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// All that the server has written to its log, over restarts.
    pub fn log(&self) -> String {
        let log = fs::read(self.dir().join(start::LOG)).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Lines of its log that no server should write: signs of a crash, or of a fault inside the module.
    pub fn signs_of_a_crash(&self) -> Vec<&'static str> {
        let signs = [
            "BUG REPORT",
            "STACK TRACE",
            "Guru Meditation",
            "crashed by signal",
            "ASSERTION",
            "panicked",
            "fault inside",
        ];
        let log = self.log();
        signs
            .into_iter()
            .filter(|sign| log.contains(sign))
            .collect()
    }

    /// Which server runs the tests, all of one run. Ask for it only where the servers differ.
    pub fn version() -> Version {
        settings::version()
    }

    /// The address for other connections (RESP2).
    pub fn client(&self) -> redis::Client {
        self.client_of(RedisConnectionInfo::default())
    }

    /// A connection that speaks RESP2.
    #[track_caller]
    pub fn connection(&self) -> Connection {
        self.connect(RedisConnectionInfo::default())
    }

    /// A connection to this database.
    #[track_caller]
    pub fn connection_in(&self, database: i64) -> Connection {
        self.connect(RedisConnectionInfo::default().set_db(database))
    }

    /// A connection that speaks RESP3.
    #[track_caller]
    pub fn connection_resp3(&self) -> Connection {
        self.connect(RedisConnectionInfo::default().set_protocol(ProtocolVersion::RESP3))
    }

    /// A connection (RESP2) of this ACL user.
    #[track_caller]
    pub fn connection_as(&self, user: &str, password: &str) -> Connection {
        let info = RedisConnectionInfo::default().set_username(user);
        self.connect(info.set_password(password))
    }

    #[track_caller]
    fn connect(&self, info: RedisConnectionInfo) -> Connection {
        // No time-out for reads: a machine that is stopped for a moment would fail every one of
        // them as interrupted. A reply that never comes is the watchdog's.
        watch_over_the_run();
        self.client_of(info).get_connection().expect("a connection")
    }

    fn client_of(&self, info: RedisConnectionInfo) -> redis::Client {
        // CLIENT SETINFO is an error on Redis 7.0, and would be counted among a test's own.
        let info = info.set_skip_set_lib_name();
        let address = ("127.0.0.1", self.port())
            .into_connection_info()
            .expect("an address");
        redis::Client::open(address.set_redis_settings(info)).expect("a client")
    }

    /// The reply to a command, from a server that may be down or hang: none when it gives none
    /// within a second, or an error.
    pub fn ask(&self, command: &redis::Cmd) -> Option<redis::Value> {
        const LIMIT: Duration = Duration::from_secs(1);
        self.process.as_ref()?;
        let client = self.client();
        let mut connection = client.get_connection_with_timeout(LIMIT).ok()?;
        connection.set_read_timeout(Some(LIMIT)).ok()?;
        match connection.req_command(command).ok()? {
            redis::Value::ServerError(_) => None,
            value => Some(value),
        }
    }

    /// Whether the process runs, as far as is known here: it was started, and neither stopped nor
    /// killed.
    pub fn is_up(&self) -> bool {
        self.process.is_some()
    }

    /// The fields of a section of `INFO`.
    #[track_caller]
    pub fn info(&self, section: &str) -> HashMap<String, String> {
        let mut connection = self.connection();
        let text: String = redis::cmd("INFO")
            .arg(section)
            .query(&mut connection)
            .expect("INFO");
        let fields = text.lines().filter_map(|line| line.split_once(':'));
        fields
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    /// One field of a section of `INFO`.
    #[track_caller]
    pub fn info_field(&self, section: &str, field: &str) -> String {
        let mut fields = self.info(section);
        fields
            .remove(field)
            .unwrap_or_else(|| panic!("INFO {section} has no {field}: {fields:?}"))
    }

    /// A number in a section of `INFO`.
    #[track_caller]
    pub fn number(&self, section: &str, field: &str) -> i64 {
        let text = self.info_field(section, field);
        text.parse().expect("a number")
    }

    /// A number of `INFO lock`, without its prefix.
    #[track_caller]
    pub fn count(&self, field: &str) -> i64 {
        self.number("lock", &format!("lock_{field}"))
    }

    /// Does this while the server's process is stopped.
    #[track_caller]
    pub fn while_stopped<T>(&self, body: impl FnOnce() -> T) -> T {
        self.signal("STOP");
        let state = || fs::read_to_string(format!("/proc/{}/stat", self.pid()));
        let stopped = || state().is_ok_and(|state| state.contains(") T "));
        eventually(stopped, "the server to be stopped");
        let result = body();
        self.signal("CONT");
        result
    }

    /// The commands in the server's append-only files, in the order of replay.
    ///
    /// # Panics
    /// When the server has none, because `appendonly` was not set.
    #[track_caller]
    pub fn aof(&self) -> Vec<aof::Command> {
        aof::read(&self.dir().join("appendonlydir"))
    }
}

impl Server {
    /// Ends the process in order, but for one that hangs or has ended.
    fn end_for_checker(&mut self) {
        const LONGEST: Duration = Duration::from_secs(5);
        if let Some(process) = &mut self.process {
            let kill = format!("kill -TERM {}", process.id());
            if Command::new("sh").args(["-c", &kill]).status().is_ok() {
                poll(LONGEST, || process.try_wait().ok().flatten());
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if slowness().is_some() {
            self.end_for_checker();
        }
        self.kill9();
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<_> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(LOG_TAIL_LINES)..];
            eprintln!(
                "--- log of the server on port {}:\n{}\n---",
                self.port(),
                tail.join("\n")
            );
        }
    }
}
