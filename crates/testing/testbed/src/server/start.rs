//! Bringing a server's process up.

use super::{PATIENCE, Server, patience, poll};
use crate::module::server_program;
use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The log's name in the server's folder. Standard error goes there too, for what a server says
/// before it can log.
pub(super) const LOG: &str = "server.log";

/// The name of its settings there.
pub(super) const CONF: &str = "redis.conf";

/// Why a server is not up.
pub(super) enum Failure {
    /// Somebody else listens on the port.
    PortTaken,
    /// It ended or did not answer; its log.
    Refused(String),
}

impl Server {
    /// Starts the process and waits until it answers.
    pub(super) fn run(&mut self) -> Result<(), Failure> {
        let log = self.dir().join(LOG);
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(log)
            .expect("a log");
        self.log_start = self.log().len();
        let program = self.settings.program.clone();
        let program = program.unwrap_or_else(server_program);
        let mut command = Command::new(&program);
        if self.settings.own_process_group {
            command.process_group(0);
        }
        let process = command
            .arg(CONF)
            .args(self.settings.sentinel.then_some("--sentinel"))
            .envs(self.settings.environment.iter().cloned())
            .current_dir(self.dir())
            .stdin(Stdio::null())
            .stderr(log.try_clone().expect("a second handle"))
            .stdout(log)
            .spawn()
            .unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        self.process = Some(process);

        let up = poll(PATIENCE, || {
            if self.has_ended() {
                return Some(false);
            }
            self.is_ready().then_some(true)
        });
        match up {
            Some(true) => Ok(()),
            Some(false) => {
                self.process = None;
                let log = self.log_of_this_run();
                if log.contains("Address already in use") {
                    Err(Failure::PortTaken)
                } else {
                    Err(Failure::Refused(log))
                }
            }
            None => {
                self.kill9();
                let log = self.log_of_this_run();
                Err(Failure::Refused(format!(
                    "{log}\n(no answer in {PATIENCE:?})"
                )))
            }
        }
    }

    pub(super) fn has_ended(&mut self) -> bool {
        let process = self.process.as_mut().expect("a process");
        process.try_wait().expect("a child's state").is_some()
    }

    fn log_of_this_run(&self) -> String {
        self.log().split_off(self.log_start)
    }

    /// Whether this very process answers and has loaded its data: another test's server may have
    /// taken the port in between.
    fn is_ready(&self) -> bool {
        let reply = ask(self.port(), "INFO server persistence\r\n").unwrap_or_default();
        if reply.starts_with("-NOAUTH") || reply.starts_with("-NOPERM") {
            return self
                .log_of_this_run()
                .contains("Ready to accept connections");
        }
        let has = |line: &str| reply.contains(&format!("\r\n{line}\r\n"));
        // A Sentinel loads nothing, and so tells nothing of it.
        has(&format!("process_id:{}", self.pid())) && (self.settings.sentinel || has("loading:0"))
    }
}

/// Sends one command on a connection of its own; the reply's first line and, if any, its text.
fn ask(port: u16, command: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(patience(Duration::from_secs(2))))?;
    stream.write_all(command.as_bytes())?;
    let mut reader = BufReader::new(stream);
    let mut reply = String::new();
    reader.read_line(&mut reply)?;
    let length = reply
        .strip_prefix('$')
        .and_then(|n| n.trim_end().parse().ok());
    reader
        .take(length.unwrap_or(0))
        .read_to_string(&mut reply)?;
    Ok(reply)
}
