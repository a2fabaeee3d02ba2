//! Looking at something until it is so, and at what a process has used.

use super::Server;
use std::any::Any;
use std::env;
use std::fs;
use std::process;
use std::sync::{Once, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// How long a condition may take to come true before a test gives it up.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many times slower than usual the servers are, where they run under a memory checker:
/// `SERVER_SLOWNESS`. Limits are that much longer, and a server that a test is done with is ended in
/// order, for the checker to tell what has leaked.
pub(super) fn slowness() -> Option<u32> {
    static SLOWNESS: OnceLock<Option<u32>> = OnceLock::new();
    *SLOWNESS.get_or_init(|| {
        let text = env::var("SERVER_SLOWNESS").ok()?;
        Some(text.parse().expect("SERVER_SLOWNESS is a number"))
    })
}

/// Work that usually takes no longer than `usual`, on the servers of this run.
pub fn patience(usual: Duration) -> Duration {
    usual * slowness().unwrap_or(1)
}

/// Waits until `condition` holds: the only way in which tests let time pass. Panics, saying `what`
/// it waited for, after ten seconds ([`patience`]).
#[track_caller]
pub fn eventually(mut condition: impl FnMut() -> bool, what: &str) {
    within(PATIENCE, &mut condition, what);
}

/// As [`eventually`], with a limit of its own: for what takes several seconds by itself, such as a
/// failover.
#[track_caller]
pub fn within(limit: Duration, mut condition: impl FnMut() -> bool, what: &str) {
    let met = poll(limit, || condition().then_some(()));
    assert!(met.is_some(), "waited in vain for {what}");
}

/// The text of a panic. The test bed panics when something is wrong.
pub fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("it has panicked").to_owned()
}

/// How long this takes, and what it gives.
pub fn timed<T>(body: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = body();
    (start.elapsed(), result)
}

/// Asks again and again until there is an answer, or until what is usually enough has passed.
pub(super) fn poll<T>(usual: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let limit = patience(usual);
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if start.elapsed() > limit {
            return None;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

static WATCHDOG: Once = Once::new();

/// Lets the program run for as long as it likes: it is no test. To be called before it connects.
pub fn without_watchdog() {
    WATCHDOG.call_once(|| {});
}

/// Ends a test program that hangs, for a reply that never comes.
pub(super) fn watch_over_the_run() {
    const LONGEST_RUN: Duration = Duration::from_secs(20 * 60);
    WATCHDOG.call_once(|| {
        thread::spawn(|| {
            let longest = patience(LONGEST_RUN);
            thread::sleep(longest);
            eprintln!("this test program has run for {longest:?}: it hangs");
            process::abort();
        });
    });
}

/// User and system time that the main thread of a process has used. Commands run on that thread,
/// so the difference around a batch is what the batch cost, however busy the machine is.
///
/// # Panics
/// Where the kernel does not count (`/proc/<pid>/task/<pid>/schedstat`; Linux only).
pub fn server_cpu(pid: u32) -> Duration {
    // `stat` counts in ticks of 10 ms, too coarse for a batch; `schedstat` in nanoseconds.
    let path = format!("/proc/{pid}/task/{pid}/schedstat");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let nanos = text.split_whitespace().next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_else(|| panic!("{path} holds {text:?}")))
}

/// How long a busy machine has kept this program and a server from running, as the kernel counts it: what a test
/// adds to a time limit that holds the product to a promise, so that the limit says the same on any machine.
#[derive(Debug)]
pub struct Load {
    pid: Option<u32>,
    before: Duration,
}

impl Load {
    /// Begins to count.
    pub fn on(server: &Server) -> Self {
        Self::of(Some(server.pid()))
    }

    /// Begins to count, for this program alone.
    pub fn here() -> Self {
        Self::of(None)
    }

    fn of(pid: Option<u32>) -> Self {
        let before = waited(pid);
        Self { pid, before }
    }

    /// Its result since then.
    pub fn so_far(&self) -> Duration {
        waited(self.pid).saturating_sub(self.before)
    }

    /// The same in milliseconds, rounded up.
    pub fn so_far_ms(&self) -> i64 {
        i64::try_from(self.so_far().as_millis()).expect("a short time") + 1
    }
}

/// The time that the threads of a process and of this program were ready to run and had no processor, and that
/// the host took from the machine. None where the kernel does not count.
fn waited(pid: Option<u32>) -> Duration {
    let server = pid.map(|pid| format!("/proc/{pid}/task"));
    let folders = ["/proc/self/task".to_owned()].into_iter().chain(server);
    let threads = folders.filter_map(|folder| fs::read_dir(folder).ok());
    let of_thread = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let nanos = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(Duration::from_nanos(nanos))
    };
    let threads = threads.flatten().flatten().filter_map(of_thread);
    threads.sum::<Duration>() + stolen()
}

/// The time that the host took from this machine, in hundredths of a second of all its processors.
fn stolen() -> Duration {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.lines().next().unwrap_or_default();
    let ticks = fields
        .split_whitespace()
        .nth(8)
        .and_then(|n| n.parse().ok());
    Duration::from_millis(10 * ticks.unwrap_or(0))
}
