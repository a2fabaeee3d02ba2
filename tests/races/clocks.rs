//! The wall clock is set an hour forward or back: waits do not notice. By libfaketime, where it is.

use crate::common::{Expect, Server, Talk, cmd};
use crate::support::{run, wait};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How late the end of a wait, or a hand-off, may be for a step of the clock: a tenth of a second,
/// and what a busy machine adds to it.
const LATE: Duration = Duration::from_millis(100);
const BUSY: Duration = Duration::from_millis(500);
/// What the two ends of a connection may see of one wait apart.
const EARLY: Duration = Duration::from_millis(5);

/// A server whose wall clock this test sets.
struct Clock {
    server: Server,
    file: PathBuf,
    _dir: tempfile::TempDir,
}

impl Clock {
    /// None where libfaketime is not there, or does not reach this server.
    fn start() -> Option<Self> {
        let libraries = ["/usr/lib", "/usr/lib64", "/usr/local/lib"];
        let multiarch = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
        let folders = multiarch
            .map(|entry| entry.path())
            .chain(libraries.map(PathBuf::from));
        let library = folders
            .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
            .find(|path| path.exists());
        let Some(library) = library else {
            println!("skipped: there is no libfaketime here (apt-get install faketime)");
            return None;
        };
        if !bears(&library) {
            println!("skipped: this server does not start with libfaketime");
            return None;
        }
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("clock");
        step(&file, 0);
        let server = Server::builder()
            .env("LD_PRELOAD", &library.display().to_string())
            .env("FAKETIME_TIMESTAMP_FILE", &file.display().to_string())
            .env("FAKETIME_NO_CACHE", "1")
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
            .start();
        let clock = Self {
            server,
            file,
            _dir: dir,
        };
        let before = clock.unix_seconds();
        clock.step(3600);
        let reached = clock.unix_seconds() - before > 3000;
        clock.step(0);
        if !reached {
            println!("skipped: libfaketime does not reach this server");
        }
        reached.then_some(clock)
    }

    fn step(&self, seconds: i64) {
        step(&self.file, seconds);
    }

    fn unix_seconds(&self) -> i64 {
        let time = cmd!(self.server.connection(), "TIME").items().remove(0);
        time.text().parse().expect("a number")
    }
}

/// Whether the server comes up with the library: Debian's Redis hangs, whose allocator asks for the
/// time before the library is ready to tell it.
fn bears(library: &Path) -> bool {
    static BEARS: OnceLock<bool> = OnceLock::new();
    *BEARS.get_or_init(|| {
        let program = std::env::var_os("REDIS_SERVER").unwrap_or_else(|| "redis-server".into());
        let version = Command::new("timeout")
            .args([OsStr::new("3"), &program, OsStr::new("--version")])
            .env("LD_PRELOAD", library)
            .output();
        version.is_ok_and(|output| output.status.success())
    })
}

fn step(file: &Path, seconds: i64) {
    let new = file.with_extension("new");
    fs::write(&new, format!("{seconds:+}s\n")).expect("a file");
    fs::rename(&new, file).expect("a file");
}

const AN_HOUR: i64 = 3600;

/// Steps in both directions; what is done in each is as if nothing had happened.
fn with_steps(body: impl Fn(&Clock, i64)) {
    let Some(clock) = Clock::start() else { return };
    for round in 0..5 {
        for seconds in [-AN_HOUR, AN_HOUR] {
            clock.step(0);
            sleep(Duration::from_millis(13 * round));
            body(&clock, seconds);
        }
    }
}

#[test]
fn a_step_of_the_clock_neither_ends_nor_stalls_a_wait() {
    with_steps(|clock, seconds| {
        let mut c = clock.server.connection();
        run(&mut c, "LOCK.ACQUIRE k a EX 36000").grant();
        let wait_ms = Duration::from_millis(400);
        let began = Instant::now();
        let mut first = wait(&clock.server, "k b BLOCK 400");
        sleep(Duration::from_millis(200));
        clock.step(seconds);
        first.receive().nil();
        let waited = began.elapsed();
        let allowed = wait_ms..wait_ms + LATE + BUSY;
        assert!(
            allowed.contains(&(waited + EARLY)),
            "waited {waited:?} with a step of {seconds} s"
        );
        run(&mut c, "LOCK.RELEASE k a").value();
    });
}

#[test]
fn a_step_of_the_clock_just_before_its_end_does_not_stall_a_wait() {
    with_steps(|clock, seconds| {
        let mut c = clock.server.connection();
        run(&mut c, "LOCK.ACQUIRE k a EX 36000").grant();
        let began = Instant::now();
        let mut first = wait(&clock.server, "k b BLOCK 150");
        sleep(Duration::from_millis(145).saturating_sub(began.elapsed()));
        clock.step(seconds);
        first.receive().nil();
        let waited = began.elapsed();
        let wait_ms = Duration::from_millis(150);
        let allowed = wait_ms..wait_ms + LATE + BUSY;
        assert!(
            allowed.contains(&(waited + EARLY)),
            "waited {waited:?} with a step of {seconds} s"
        );
        run(&mut c, "LOCK.RELEASE k a").value();
    });
}

#[test]
fn a_step_of_the_clock_does_not_stall_a_hand_off() {
    for free in ["LOCK.RELEASE k a", "DEL k", "FLUSHALL"] {
        with_steps(|clock, seconds| {
            let mut c = clock.server.connection();
            run(&mut c, "LOCK.ACQUIRE k a EX 36000").grant();
            let mut first = wait(&clock.server, "k b EX 36000 BLOCK 0");
            clock.step(seconds);
            sleep(Duration::from_millis(20));
            let began = Instant::now();
            run(&mut c, free).value();
            first.granted();
            let took = began.elapsed();
            assert!(
                took < LATE + BUSY,
                "{free}: {took:?} with a step of {seconds} s"
            );
            run(&mut c, "LOCK.RELEASE k b").value();
        });
    }
}
