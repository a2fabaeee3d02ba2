//! A program as a process: started, listened to, signalled.

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;
use testbed::{Expect, LockInfo, Server, cmd, eventually, module};

/// How long a program may be silent: some languages take seconds to start.
const PATIENCE: Duration = Duration::from_secs(90);

/// A running program. It ends with this guard, and so do those that it has started.
pub(crate) struct Program {
    process: Child,
    lines: Receiver<String>,
}

impl Program {
    /// Starts it with these arguments, and the server's port.
    pub(crate) fn start(server: &Server, arguments: &[&str]) -> Self {
        let words = std::env::var("EXAMPLE_PROGRAM").unwrap_or_default();
        let mut words = words.split_whitespace();
        let program = words.next().unwrap_or(env!("CARGO_BIN_EXE_examples-rust"));
        let port = server.port().to_string();
        let mut process = Command::new(program)
            .args(words)
            .args(arguments)
            .args(["--port", &port])
            .current_dir(module::root())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|e| panic!("{program}: {e}"));
        let output = process.stdout.take().expect("an output");
        let (send, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    return;
                }
            }
        });
        Self { process, lines }
    }

    /// The next result; none when it has ended.
    pub(crate) fn next(&self) -> Option<Value> {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                let result = serde_json::from_str(&line);
                Some(result.unwrap_or_else(|e| panic!("{line:?} is no JSON: {e}")))
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the program says nothing"),
        }
    }

    /// Asks it to end, and all that it has started.
    pub(crate) fn terminate(&self) {
        signal(&format!("-{}", self.process.id()), "TERM");
    }

    /// All further results and how it ended.
    pub(crate) fn end(mut self) -> (Vec<Value>, ExitStatus) {
        let results = std::iter::from_fn(|| self.next()).collect();
        (results, self.process.wait().expect("a process"))
    }

    /// Its only result, and that it ended well.
    pub(crate) fn result(self) -> Value {
        let (mut results, status) = self.end();
        assert!(
            status.success() && results.len() == 1,
            "{status}: {results:?}"
        );
        results.remove(0)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Nothing to do for one that has ended.
        if let Ok(None) = self.process.try_wait() {
            signal(&format!("-{}", self.process.id()), "KILL");
            let _ = self.process.wait();
        }
    }
}

/// The process that holds a lock, by its owner `examples:HOST:PID:UUID`.
pub(crate) fn holder(server: &Server, key: &str) -> String {
    let info = || LockInfo::try_from(cmd!(server.connection(), "LOCK.INFO", key).value());
    eventually(|| info().is_ok(), "a holder");
    let info = info().expect("a lock that is held");
    let owner = String::from_utf8(info.owner).expect("text");
    let parts: Vec<_> = owner.split(':').collect();
    assert!(parts.len() >= 4 && parts[0] == "examples", "{owner}");
    parts[2].to_owned()
}

/// Sends a signal to a process, or to a group whose number follows a `-`.
pub(crate) fn signal(process: &str, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, "--", process])
        .status();
    assert!(
        sent.expect("kill starts").success(),
        "kill -{name} {process}"
    );
}
