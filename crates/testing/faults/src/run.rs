//! The state that all in a run share, and the result of the run.

use crate::clock;
use crate::register::Sql;
use crate::tally::Tally;
use history::{History, Mode, Moment, Register, Report, Span, Violation};
use rand::SeedableRng;
use rand::rngs::StdRng;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};
use testbed::Server;

/// A run: its seed, its time, its locks, and what has been counted and found so far.
pub(crate) struct Run {
    pub(crate) seed: u64,
    /// The locks.
    pub(crate) keys: Vec<String>,
    origin: Moment,
    end: Instant,
    findings: Mutex<Findings>,
}

/// The result of a run.
#[derive(Default)]
pub struct Findings {
    /// How often each thing happened: operations, their outcomes and faults.
    pub tally: Tally,
    /// The checker's findings.
    pub violations: Vec<Violation>,
    /// Errors besides those of the history.
    pub troubles: Vec<String>,
}

impl Findings {
    /// Everything that is wrong.
    pub fn wrongs(&self) -> impl Iterator<Item = String> {
        let violations = self.violations.iter().map(ToString::to_string);
        violations.chain(self.troubles.iter().cloned())
    }
}

impl Run {
    /// A run that begins now, with so many locks.
    pub(crate) fn new(seed: u64, keys: usize, length: Duration) -> Self {
        Self {
            seed,
            keys: (0..keys).map(|number| format!("lock-{number}")).collect(),
            origin: clock::now(),
            end: Instant::now() + length,
            findings: Mutex::default(),
        }
    }

    /// The choices of one that takes part, by its number.
    pub(crate) fn random(&self, number: u32) -> StdRng {
        StdRng::seed_from_u64(self.seed ^ (u64::from(number) << 32))
    }

    /// When it began, by the machine's clock.
    pub(crate) fn origin(&self) -> Moment {
        self.origin
    }

    /// Microseconds since it began.
    pub(crate) fn now(&self) -> Moment {
        clock::now() - self.origin
    }

    /// From then until now.
    pub(crate) fn since(&self, from: Moment) -> Span {
        Span {
            from,
            to: self.now(),
        }
    }

    /// Whether it is time to end.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() > self.end
    }

    /// Counts something.
    pub(crate) fn count(&self, what: &str, times: u64) {
        self.findings().tally.add(what, times);
    }

    /// Something that must not be, besides what the history shows.
    pub(crate) fn trouble(&self, text: impl Display) {
        self.findings().troubles.push(text.to_string());
    }

    /// Looks for signs of a crash in a server's log.
    pub(crate) fn check_log(&self, server: &Server) {
        for sign in server.signs_of_a_crash() {
            self.trouble(format!("{sign} in the log of port {}", server.port()));
        }
    }

    /// Looks whether the register has ever taken a lower token than before.
    pub(crate) fn check_register(&self, sql: &Sql) {
        if let Some(name) = sql.first_fall() {
            self.trouble(format!("the SQL register of {name} went back"));
        }
    }

    /// Has the history checked.
    pub(crate) fn check(&self, history: &History, mode: Mode) -> Report {
        let report = history::check(history, mode);
        let mut findings = self.findings();
        let counts = &report.counts;
        for (what, times) in counts.named() {
            findings.tally.add_count(what, times);
        }
        for (register, writes) in &counts.writes {
            let [taken, stale] = names(*register);
            findings.tally.add_count(taken, writes.taken);
            findings.tally.add_count(stale, writes.stale_refused);
        }
        findings
            .violations
            .extend(report.violations.iter().cloned());
        let undecided = report.undecided.iter();
        let undecided = undecided.map(|key| format!("{key}: too much to search"));
        findings.troubles.extend(undecided);
        drop(findings);
        report
    }

    /// The result.
    pub(crate) fn into_findings(self) -> Findings {
        self.findings.into_inner().expect("no client has panicked")
    }

    fn findings(&self) -> MutexGuard<'_, Findings> {
        self.findings.lock().expect("no client has panicked")
    }
}

/// Under which names writes to a register are counted: those that were taken, and those that came too
/// late and were refused.
pub(crate) const fn names(register: Register) -> [&'static str; 2] {
    match register {
        Register::Script => [
            "writes taken by the script",
            "stale writes refused by the script",
        ],
        Register::Sql => ["writes taken by SQL", "stale writes refused by SQL"],
    }
}

/// Runs so many clients, each on a thread of its own, and `meanwhile` on this one, which may ask
/// whether all clients have ended. Gives back what these give back.
pub(crate) fn with_clients<T: Send, R>(
    count: u32,
    client: impl Fn(u32) -> T + Sync,
    meanwhile: impl FnOnce(&dyn Fn() -> bool) -> R,
) -> (Vec<T>, R) {
    thread::scope(|scope| {
        let client = &client;
        let clients: Vec<_> = (0..count)
            .map(|number| scope.spawn(move || client(number)))
            .collect();
        let result = meanwhile(&|| clients.iter().all(thread::ScopedJoinHandle::is_finished));
        let join = |client: thread::ScopedJoinHandle<'_, T>| client.join().expect("a client");
        (clients.into_iter().map(join).collect(), result)
    })
}
