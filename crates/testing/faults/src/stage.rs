//! What everybody in a round shares: the time, the servers, and notes about what was done.

use crate::deployment::Deployment;
use faults::register::Sql;
use history::{ClockStep, Facts, Moment, Span};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A connection as its server numbers it: which node, in which of its lives, and `CLIENT ID`.
pub(crate) type ConnectionId = (usize, u32, i64);

/// A round's common ground.
pub(crate) struct Stage {
    /// What clients draw their choices from.
    pub(crate) seed: u64,
    /// How clients behave here.
    pub(crate) habits: Habits,
    /// The locks.
    pub(crate) keys: Vec<String>,
    /// The servers.
    pub(crate) deployment: Box<dyn Deployment>,
    /// The database with the fenced register.
    pub(crate) sql: Sql,
    /// Whoever gets a lock now does not touch it for a while.
    dozing: AtomicBool,
    began: Instant,
    end: Instant,
    notes: Mutex<Notes>,
}

/// How clients behave in a configuration.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Habits {
    /// How far a token may be raised ahead, in microseconds; 0: never.
    pub(crate) raise: u64,
    /// A grant or a renewal is trusted only when `WAIT` says that all replicas have it.
    pub(crate) wait: bool,
    /// Most owners make two calls at a time.
    pub(crate) twins: bool,
}

#[derive(Default)]
struct Notes {
    /// Whose connection it is.
    clients: HashMap<ConnectionId, u32>,
    /// Connections that `CLIENT KILL` closed, and when that was answered.
    killed: HashSet<ConnectionId>,
    faults: BTreeMap<&'static str, u64>,
    troubles: Vec<String>,
    facts: Facts,
}

impl Stage {
    /// A round that begins now.
    pub(crate) fn new(
        seed: u64,
        habits: Habits,
        keys: Vec<String>,
        deployment: Box<dyn Deployment>,
        length: Duration,
    ) -> Self {
        let began = Instant::now();
        Self {
            seed,
            habits,
            keys,
            deployment,
            sql: Sql::new(),
            dozing: AtomicBool::new(false),
            began,
            end: began + length,
            notes: Mutex::default(),
        }
    }

    /// Microseconds since the round began.
    pub(crate) fn now(&self) -> Moment {
        u64::try_from(self.began.elapsed().as_micros()).expect("a short round")
    }

    /// Whether it is time to end.
    pub(crate) fn is_over(&self) -> bool {
        Instant::now() > self.end
    }

    /// Lets those who get a lock from now on doze, or no more.
    pub(crate) fn let_holders_doze(&self, doze: bool) {
        self.dozing.store(doze, SeqCst);
    }

    /// Whether they do.
    pub(crate) fn holders_doze(&self) -> bool {
        self.dozing.load(SeqCst)
    }

    /// Notes whose connection this is.
    pub(crate) fn introduce(&self, connection: ConnectionId, client: u32) {
        self.notes().clients.insert(connection, client);
    }

    /// Whose connection this is.
    pub(crate) fn client_of(&self, connection: ConnectionId) -> Option<u32> {
        self.notes().clients.get(&connection).copied()
    }

    /// Notes that the server has closed this connection at our word.
    pub(crate) fn killed(&self, connection: ConnectionId) {
        self.notes().killed.insert(connection);
    }

    /// Whether it was closed by `CLIENT KILL`. That command's own reply may still be on its way.
    pub(crate) fn was_killed(&self, connection: ConnectionId) -> bool {
        let patience = Instant::now() + Duration::from_millis(100);
        while Instant::now() < patience {
            if self.notes().killed.contains(&connection) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    }

    /// Counts a fault.
    pub(crate) fn count(&self, fault: &'static str, times: u64) {
        *self.notes().faults.entry(fault).or_default() += times;
    }

    /// Something that must not be, besides what the history shows.
    pub(crate) fn trouble(&self, text: String) {
        self.notes().troubles.push(text);
    }

    /// What was acknowledged just before or in this span may be lost.
    pub(crate) fn may_have_lost(&self, span: Span) {
        self.notes().facts.losses.push(span);
    }

    /// Keys may be evicted in this span.
    pub(crate) fn may_evict(&self, span: Span) {
        self.notes().facts.evictions.push(span);
    }

    /// The server's clock was set.
    pub(crate) fn clock_was_set(&self, step: ClockStep) {
        self.notes().facts.steps.push(step);
    }

    /// What was noted: faults, troubles and facts.
    pub(crate) fn into_notes(self) -> (BTreeMap<&'static str, u64>, Vec<String>, Facts) {
        let notes = self.notes.into_inner().expect("nobody died with the notes");
        (notes.faults, notes.troubles, notes.facts)
    }

    fn notes(&self) -> std::sync::MutexGuard<'_, Notes> {
        self.notes.lock().expect("nobody died with the notes")
    }
}
