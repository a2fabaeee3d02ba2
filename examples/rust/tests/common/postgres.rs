//! A `PostgreSQL` server of the test's own, where it is installed.

use std::env;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;
use testbed::within;

const PATIENCE: Duration = Duration::from_secs(60);
/// `nobody`: `PostgreSQL` does not run as root.
const NOBODY: u32 = 65_534;

/// A server that was told of by `EXAMPLES_POSTGRES_URL`, or one of its own, which ends with this
/// guard.
pub(crate) struct Postgres {
    url: String,
    own: Option<(Child, TempDir)>,
}

impl Postgres {
    /// None where `PostgreSQL` is not installed.
    pub(crate) fn find() -> Option<Self> {
        match env::var("EXAMPLES_POSTGRES_URL") {
            Ok(url) if !url.is_empty() => Some(Self { url, own: None }),
            _ => Some(Self::start(&programs()?)),
        }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    fn start(programs: &Path) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
        if is_root {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).expect("a folder to give away");
        }
        let data = folder.path().join("data");
        let command = |name: &str| {
            let mut command = Command::new(programs.join(name));
            command.current_dir(folder.path()).stdout(Stdio::null());
            command.arg("-D").arg(&data);
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        };
        let made = command("initdb")
            .args(["--username=test", "--auth=trust", "--no-sync"])
            .args(["--locale=C", "--encoding=UTF8"])
            .status();
        assert!(made.expect("initdb starts").success(), "initdb failed");
        let mut started = None;
        let start = || {
            started = Self::listen(command("postgres"));
            started.is_some()
        };
        within(PATIENCE, start, "a port for PostgreSQL");
        let (process, url) = started.expect("a server");
        Self {
            url,
            own: Some((process, folder)),
        }
    }

    /// On a port that was free a moment ago: none if it was taken meanwhile.
    fn listen(mut command: Command) -> Option<(Child, String)> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let mut process = command
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"])
            .args(["-c", "unix_socket_directories=", "-p", &port.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("postgres starts");
        let url = format!("postgres://test:test@127.0.0.1:{port}/postgres");
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        let mut has_ended = false;
        let answers = || {
            has_ended = matches!(process.try_wait(), Ok(Some(_)));
            let connect = tokio_postgres::connect(&url, tokio_postgres::NoTls);
            has_ended || runtime.block_on(connect).is_ok()
        };
        within(PATIENCE, answers, "PostgreSQL to come up");
        (!has_ended).then_some((process, url))
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some((process, _)) = &mut self.own {
            // At once, and with all that it has started: `immediate shutdown`.
            let id = process.id().to_string();
            let _ = Command::new("kill").args(["-s", "QUIT", &id]).status();
            let _ = process.wait();
        }
    }
}

/// The folder with `initdb` and `postgres`: in the search path, or where Debian has them.
fn programs() -> Option<PathBuf> {
    let has_both = |folder: &PathBuf| {
        ["initdb", "postgres"]
            .iter()
            .all(|name| folder.join(name).exists())
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let of_versions = versions.flatten().map(|version| version.path().join("bin"));
    env::split_paths(&path).chain(of_versions).find(has_both)
}
