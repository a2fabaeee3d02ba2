//! An example as a process.

use std::env;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use testbed::{Server, module};

use crate::postgres::Postgres;

/// How long an example may be silent: some languages take seconds to start.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running example. It ends with this guard, and so do the processes that it has started.
pub(crate) struct Program {
    process: Child,
    lines: Receiver<String>,
}

impl Program {
    /// Starts the example for this job, with its servers' addresses in the environment.
    pub(crate) fn start(job: &str, server: &Server, database: Option<&Postgres>) -> Self {
        let words = env::var("EXAMPLE").unwrap_or_else(|_| {
            let built = env!("CARGO_BIN_EXE_stock");
            format!("{}{{}}", built.strip_suffix("stock").expect("its name"))
        });
        let words = words.replace("{}", job).replace("{Job}", &class(job));
        let mut words = words.split_whitespace();
        let program = words.next().expect("a program");
        let mut command = Command::new(program);
        command
            .args(words)
            .current_dir(module::root())
            .env("REDIS_URL", format!("redis://127.0.0.1:{}", server.port()))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0);
        if let Some(database) = database {
            command
                .env("DATABASE_URL", database.url())
                .env("JDBC_URL", jdbc_url(database.url()));
        }
        let mut process = command
            .spawn()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let output = process.stdout.take().expect("an output");
        let (send, lines) = channel();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(Result::ok);
            // Nobody reads on when the test has failed.
            for _ in lines.map(|line| send.send(line)).take_while(Result::is_ok) {}
        });
        Self { process, lines }
    }

    /// The next line that it prints; none when it has ended.
    pub(crate) fn next(&self) -> Option<String> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the example says nothing"),
        }
    }

    /// All further lines and how it ended.
    pub(crate) fn end(mut self) -> (Vec<String>, ExitStatus) {
        let lines = std::iter::from_fn(|| self.next()).collect();
        (lines, self.process.wait().expect("a process"))
    }

    /// All that it prints, and that it ended well.
    pub(crate) fn succeeds(self) -> Vec<String> {
        let (lines, status) = self.end();
        assert!(status.success(), "{status}: {lines:?}");
        lines
    }

    /// Tells it to stop, with all processes that it has started.
    pub(crate) fn terminate(&self) {
        self.signal("TERM");
    }

    fn signal(&self, name: &str) {
        let group = format!("-{}", self.process.id());
        let _ = Command::new("kill")
            .args(["-s", name, "--", &group])
            .status();
    }

    /// Kills it, with all processes that it has started.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Nothing to do for one that has ended.
        if let Ok(None) = self.process.try_wait() {
            self.signal("KILL");
            let _ = self.process.wait();
        }
    }
}

/// The address of a database as Java has it, with the login of the test's own server.
fn jdbc_url(url: &str) -> String {
    let address = url.rsplit('@').next().unwrap_or_default();
    format!("jdbc:postgresql://{address}?user=test&password=test")
}

/// `read_write` as the name of a class: `ReadWrite`.
fn class(job: &str) -> String {
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    job.split('_').map(capital).collect()
}
