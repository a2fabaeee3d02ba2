//! A server whose wall clock can be set, by libfaketime (Debian: faketime), where it is.

use crate::{Builder, Expect, Server, cmd, module};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// A server with a wall clock of its own. Its monotonic clock is the machine's.
pub struct SteppedClock {
    /// The server.
    pub server: Server,
    /// The hand that sets the clock.
    pub hand: Hand,
}

/// Sets a server's clock, also after a restart of that server.
pub struct Hand {
    file: PathBuf,
    _dir: TempDir,
}

impl SteppedClock {
    /// Starts it; the reason where libfaketime is not there, or does not reach this server.
    pub fn start(settings: Builder) -> Result<Self, String> {
        let library =
            library().ok_or("there is no libfaketime here (Debian: apt-get install faketime)")?;
        if !works_with(library) {
            return Err("this server does not start with libfaketime".to_owned());
        }
        if Server::version().is_valkey_from(9, 0) {
            // Commands go on by the old time for up to some milliseconds.
            return Err("a step reaches this server only after a while".to_owned());
        }
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("clock");
        let hand = Hand { file, _dir: dir };
        hand.set(0);
        let server = settings
            .env("LD_PRELOAD", &library.display().to_string())
            .env("FAKETIME_TIMESTAMP_FILE", &hand.file.display().to_string())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .start();
        let clock = Self { server, hand };
        let before = clock.unix_seconds();
        clock.step(3600);
        let reached = clock.unix_seconds() - before > 3000;
        clock.step(0);
        reached
            .then_some(clock)
            .ok_or_else(|| "libfaketime does not reach this server".to_owned())
    }

    /// Puts the clock so many seconds from the machine's, from now on.
    pub fn step(&self, seconds: i64) {
        self.hand.set(seconds);
    }

    fn unix_seconds(&self) -> i64 {
        let time = cmd!(self.server.connection(), "TIME").items().remove(0);
        time.text().parse().expect("a number")
    }
}

impl Hand {
    /// Puts the clock so many seconds from the machine's, from now on.
    pub fn set(&self, seconds: i64) {
        let new = self.file.with_extension("new");
        fs::write(&new, format!("{seconds:+}s\n")).expect("a file");
        fs::rename(&new, &self.file).expect("a file");
    }
}

fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let multiarch = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let others = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].map(PathBuf::from);
        multiarch
            .map(|entry| entry.path())
            .chain(others)
            .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
            .find(|path| path.exists())
    };
    LIBRARY.get_or_init(find).as_deref()
}

/// Whether the server comes up with the library: Debian's Redis hangs, whose allocator asks for the
/// time before the library is ready to tell it.
fn works_with(library: &Path) -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    *WORKS.get_or_init(|| {
        let program = module::server_program();
        let version = Command::new("timeout")
            .args([
                OsStr::new("3"),
                program.as_os_str(),
                OsStr::new("--version"),
            ])
            .env("LD_PRELOAD", library)
            .output();
        version.is_ok_and(|output| output.status.success())
    })
}
