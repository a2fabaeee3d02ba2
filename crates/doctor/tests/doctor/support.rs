//! The program, run on servers, and its report.

use redis::Connection;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use testbed::{Builder, Expect, Server, Talk, line, within};

/// How long servers may take to notice, or to recover.
const PATIENCE: Duration = Duration::from_secs(40);

/// A server on which there is nothing to find.
pub(crate) fn healthy() -> Builder {
    Server::builder()
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("tcp-keepalive", "10")
        .config("enable-module-command", "yes")
        .config("lock.max-waiters-total", "5000")
}

/// The output of the program.
pub(crate) struct Report {
    pub(crate) exit: i32,
    pub(crate) json: Value,
}

/// One thing that it says.
#[derive(Clone, Debug)]
pub(crate) struct Finding(pub(crate) Value);

/// Runs it on the server at this port, or with these other words.
pub(crate) fn doctor(words: &[&str]) -> Report {
    let output = program(&[words, &["--json"]].concat());
    let json = serde_json::from_slice(&output.stdout);
    let json: Value = json.unwrap_or_else(|error| {
        panic!(
            "no JSON ({error}): {}",
            String::from_utf8_lossy(&output.stderr)
        )
    });
    let exit = output.status.code().expect("it ends by itself");
    assert_eq!(json["exit"], exit, "{json:#}");
    Report { exit, json }
}

pub(crate) fn program(words: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redis-lock-doctor"));
    command
        .env_remove("REDIS_URL")
        .env_remove("REDIS_SERVERS_LOGIN");
    command.args(words).output().expect("the program starts")
}

pub(crate) fn look(server: &Server) -> Report {
    doctor(&["--port", &server.port().to_string()])
}

impl Report {
    /// The errors, the warnings and the advice of a check.
    pub(crate) fn bad(&self, check: &str) -> Vec<Finding> {
        self.of(check, |severity| {
            ["error", "warning", "advice"].contains(&severity)
        })
    }

    pub(crate) fn unseen(&self) -> Vec<Finding> {
        let checks = self.json["findings"].as_array().expect("findings");
        let unseen = checks
            .iter()
            .filter(|one| one["severity"] == "not-looked-at");
        unseen.cloned().map(Finding).collect()
    }

    /// Its verdict on a check.
    pub(crate) fn of(&self, check: &str, wanted: impl Fn(&str) -> bool) -> Vec<Finding> {
        let findings = self.json["findings"].as_array().expect("findings");
        let found = findings.iter().filter(|one| {
            one["check"] == check && wanted(one["severity"].as_str().expect("a severity"))
        });
        found.cloned().map(Finding).collect()
    }

    /// The one error, warning or advice of a check.
    #[track_caller]
    pub(crate) fn one(&self, check: &str, severity: &str) -> Finding {
        let found = self.bad(check);
        let [finding] = found.as_slice() else {
            panic!("one {severity} of {check} expected: {:#}", self.json);
        };
        assert_eq!(finding.0["severity"], severity, "{finding:?}");
        finding.clone()
    }

    /// Demands that nothing is wrong, and that all was looked at.
    #[track_caller]
    pub(crate) fn fine(&self) {
        assert_eq!(self.exit, 0, "{:#}", self.json);
    }
}

impl Finding {
    pub(crate) fn seen(&self) -> &str {
        self.0["seen"].as_str().expect("text")
    }

    pub(crate) fn servers(&self) -> Vec<&str> {
        let servers = self.0["servers"].as_array().expect("servers");
        servers
            .iter()
            .map(|one| one.as_str().expect("text"))
            .collect()
    }

    /// Its lines of a kind.
    pub(crate) fn lines(&self, kind: &str) -> Vec<&str> {
        let lines = self.0["fix"].as_array().expect("lines").iter();
        let lines = lines.filter(|one| one["kind"] == kind);
        lines
            .map(|one| one["line"].as_str().expect("text"))
            .collect()
    }

    /// Types all commands of it.
    #[track_caller]
    pub(crate) fn run_all(&self, c: &mut Connection) {
        let lines = self.lines("run");
        assert!(!lines.is_empty(), "{self:?}");
        for words in lines {
            c.send(&line(words)).value();
        }
    }

    /// Types the first of its commands.
    #[track_caller]
    pub(crate) fn run_first(&self, c: &mut Connection) {
        let lines = self.lines("run");
        c.send(&line(lines.first().expect("a command"))).value();
    }
}

/// Demands that the check has nothing bad to say of the server any more, soon.
#[track_caller]
pub(crate) fn gone(server: &Server, check: &str) {
    gone_by(&["--port", &server.port().to_string()], check);
}

/// As [`gone`], by a look with these words.
#[track_caller]
pub(crate) fn gone_by(words: &[&str], check: &str) {
    let is_gone = || {
        let report = doctor(words);
        report.json["error"].is_null() && report.bad(check).is_empty()
    };
    within(PATIENCE, is_gone, &format!("{check} to be fixed"));
}

/// The first error or warning of a check, which may take a while to show.
#[track_caller]
pub(crate) fn comes(words: &[&str], check: &str) -> Finding {
    let mut found = None;
    let look = || {
        let report = doctor(words);
        if report.json["error"].is_null() {
            found = report.bad(check).into_iter().next();
        }
        found.is_some()
    };
    within(PATIENCE, look, &format!("{check} to be found"));
    found.expect("it was found")
}

/// A server with these settings: the check finds a fault of this severity. Then, by its first command, and on
/// another such server by its first lines of redis.conf, it is gone.
#[track_caller]
pub(crate) fn by_settings(check: &str, severity: &str, settings: &[(&str, &str)]) {
    let with = |builder: Builder| {
        let add = |builder: Builder, (name, value): &(&str, &str)| builder.config(name, value);
        settings.iter().fold(builder, add)
    };
    let mut server = with(healthy()).start();
    let finding = look(&server).one(check, severity);
    finding.run_first(&mut server.connection());
    gone(&server, check);
    let lines = finding.lines("conf");
    let (name, value) = lines[0].split_once(' ').expect("a name and a value");
    server
        .reconfigure(|_| with(healthy()).config(name, value))
        .restart();
    let again = look(&server).bad(check);
    assert!(again.is_empty(), "with {name} {value}: {again:?}");
}
