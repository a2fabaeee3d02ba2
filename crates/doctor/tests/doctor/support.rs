//! Runs the program on servers, and reads its report.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;
use testbed::{Builder, Expect, Server, module, run, within};

/// How long servers may take to notice a problem, or to recover.
const PATIENCE: Duration = Duration::from_secs(40);

/// A server with settings that cause no findings.
pub(crate) fn sound(builder: Builder) -> Builder {
    builder
        .config("appendonly", "yes")
        .config("appendfsync", "always")
        .config("tcp-keepalive", "10")
        .config("lock.max-waiters-total", "5000")
}

/// A server without findings.
pub(crate) fn healthy() -> Builder {
    sound(Server::builder()).config("enable-module-command", "yes")
}

/// A server without the module, which may be loaded later.
pub(crate) fn bare() -> Builder {
    let builder = Server::builder().without_module();
    builder.config("enable-module-command", "yes")
}

/// A script in the server's folder that starts it after these lines of a shell.
pub(crate) fn starter(server: &Server, lines: &str) -> PathBuf {
    let program = server.dir().join("limited");
    let real = module::server_program();
    let script = format!("#!/bin/sh\n{lines}\nexec {} \"$@\"\n", real.display());
    fs::write(&program, script).expect("a script");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    program
}

/// Runs the program.
pub(crate) fn program(words: &[String]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redis-lock-doctor"));
    command
        .env_remove("REDIS_URL")
        .env_remove("REDIS_SERVERS_LOGIN");
    command.args(words).output().expect("the program starts")
}

/// The program with these arguments, which runs again for each question.
pub(crate) struct Doctor(Vec<String>);

/// The output of one run.
pub(crate) struct Report {
    pub(crate) exit: i32,
    pub(crate) json: Value,
}

/// One finding of a report.
#[derive(Clone, Debug)]
pub(crate) struct Finding(pub(crate) Value);

impl Doctor {
    pub(crate) fn of(server: &Server) -> Self {
        Self::at(&format!("redis://127.0.0.1:{}", server.port()))
    }

    pub(crate) fn at(url: &str) -> Self {
        Self(vec!["--url".to_owned(), url.to_owned()])
    }

    /// With the login of a user and its password.
    pub(crate) fn by(login: &str, server: &Server) -> Self {
        Self::at(&format!("redis://{login}@127.0.0.1:{}", server.port()))
    }

    pub(crate) fn with(&self, words: &[&str]) -> Self {
        let more = words.iter().map(|word| (*word).to_owned());
        Self(self.0.iter().cloned().chain(more).collect())
    }

    pub(crate) fn looks(&self) -> Report {
        let output = program(&self.with(&["--json"]).0);
        let json: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            let why = String::from_utf8_lossy(&output.stderr);
            panic!("no JSON ({error}): {why}")
        });
        let exit = output.status.code().expect("it ends by itself");
        assert_eq!(json["exit"], exit, "{json:#}");
        Report { exit, json }
    }

    /// The one error, warning or advice of a check.
    #[track_caller]
    pub(crate) fn one(&self, check: &str, severity: &str) -> Finding {
        self.looks().one(check, severity)
    }

    /// Checks that the check soon finds nothing any more.
    #[track_caller]
    pub(crate) fn gone(&self, check: &str) {
        let is_gone = || {
            let report = self.looks();
            report.json["error"].is_null() && report.bad(check).is_empty()
        };
        within(PATIENCE, is_gone, &format!("{check} to be fixed"));
    }

    /// Waits for the first error or warning of a check with this text.
    #[track_caller]
    pub(crate) fn comes(&self, check: &str, part: &str) -> Finding {
        let mut found = None;
        let look = || {
            let report = self.looks();
            if report.json["error"].is_null() {
                found = report.bad(check).into_iter().next();
            }
            found.is_some()
        };
        within(PATIENCE, look, &format!("{check} to be found"));
        found.expect("it was found").says(part)
    }
}

impl Report {
    fn findings(&self, is_wanted: impl Fn(&Value) -> bool) -> Vec<Finding> {
        let findings = self.json["findings"].as_array().expect("findings").iter();
        let found = findings.filter(|one| is_wanted(one));
        found.cloned().map(Finding).collect()
    }

    /// The errors, the warnings and the advice of a check.
    pub(crate) fn bad(&self, check: &str) -> Vec<Finding> {
        let bad = ["error", "warning", "advice"];
        self.findings(|one| one["check"] == check && bad.iter().any(|it| one["severity"] == *it))
    }

    /// The checks that could not be made.
    pub(crate) fn unseen(&self) -> Vec<Finding> {
        self.findings(|one| one["severity"] == "not-checked")
    }

    /// The first verdict of a check, whatever it is.
    #[track_caller]
    pub(crate) fn said(&self, check: &str) -> Finding {
        self.findings(|one| one["check"] == check).swap_remove(0)
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

    /// Checks that nothing is wrong, and that everything was checked.
    #[track_caller]
    pub(crate) fn fine(&self) {
        assert_eq!(self.exit, 0, "{:#}", self.json);
    }

    /// Checks that a server could not be reached.
    #[track_caller]
    pub(crate) fn misses_a_server(&self) {
        let reach = self.findings(|one| one["check"] == "reach");
        assert_eq!(reach[0].0["severity"], "not-checked", "{:#}", self.json);
    }

    pub(crate) fn servers(&self) -> &[Value] {
        self.json["servers"].as_array().expect("servers")
    }
}

impl Finding {
    pub(crate) fn seen(&self) -> &str {
        self.0["seen"].as_str().expect("text")
    }

    /// Checks that the text of the finding contains this.
    #[track_caller]
    pub(crate) fn says(self, part: &str) -> Self {
        assert!(self.seen().contains(part), "{part}: {self:?}");
        self
    }

    pub(crate) fn servers(&self) -> Vec<&str> {
        let servers = self.0["servers"].as_array().expect("servers").iter();
        servers.map(|one| one.as_str().expect("text")).collect()
    }

    /// The fixes of a kind.
    pub(crate) fn lines(&self, kind: &str) -> Vec<&str> {
        let lines = self.0["fix"].as_array().expect("lines").iter();
        let lines = lines.filter(|one| one["kind"] == kind);
        lines.filter_map(|one| one["line"].as_str()).collect()
    }

    /// The first fix of a kind.
    pub(crate) fn line(&self, kind: &str) -> Option<&str> {
        self.lines(kind).first().copied()
    }

    /// Runs all commands of the finding.
    #[track_caller]
    pub(crate) fn run_all(&self, server: &Server) {
        let mut c = server.connection();
        for words in self.lines("run") {
            run(&mut c, words).value();
        }
    }

    /// Runs the first command of the finding.
    #[track_caller]
    pub(crate) fn run_first(&self, server: &Server) {
        let line = self.line("run").expect("a command");
        run(&mut server.connection(), line).value();
    }
}

/// Faults such as `check severity options: name value, name value; command; command`: on a server with these settings,
/// and after these commands, the check finds one of this severity, if the doctor has these options. After its commands
/// it is gone; so it is on a server with its first line of redis.conf.
#[track_caller]
pub(crate) fn each_is_found_and_fixed<const COUNT: usize>(faults: [&str; COUNT]) {
    for fault in faults {
        let (what, how) = fault.split_once(": ").expect("a check and settings");
        let mut words = what.split(' ');
        let [check, severity] = [(); 2].map(|()| words.next().expect("a word"));
        let options: Vec<_> = words.collect();
        let mut commands = how.split("; ");
        let lines = commands.next().unwrap_or_default().split(", ");
        let lines = lines.filter_map(|line| line.split_once(' '));
        let add = |builder: Builder, (name, value)| builder.config(name, value);
        let settings = || lines.clone().fold(healthy(), add);
        let mut server = settings().start();
        for command in commands {
            run(&mut server.connection(), command).value();
        }
        let doctor = Doctor::of(&server).with(&options);
        let finding = doctor.one(check, severity);
        finding.run_all(&server);
        doctor.gone(check);
        let Some((name, value)) = finding.line("conf").and_then(|line| line.split_once(' ')) else {
            continue;
        };
        server
            .reconfigure(|_| settings().config(name, value))
            .restart();
        let again = Doctor::of(&server).looks().bad(check);
        assert!(again.is_empty(), "{fault}, with {name} {value}: {again:?}");
    }
}
