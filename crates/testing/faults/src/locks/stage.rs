//! What everybody in a run of this workload shares: the servers, and notes about what was done to them.

use super::deployment::Deployment;
use super::protocol;
use crate::register::Sql;
use crate::run::Run;
use history::{ClockStep, Facts, Moment, Span};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A connection as its server numbers it: which node, in which of its lives, and `CLIENT ID`.
pub(crate) type ConnectionId = (usize, u32, i64);

/// A run on some servers.
pub(crate) struct Stage {
    pub(crate) run: Run,
    /// How clients behave here.
    pub(crate) habits: Habits,
    /// The servers.
    pub(crate) deployment: Box<dyn Deployment>,
    /// The database with the fenced register.
    pub(crate) sql: Sql,
    /// Clients that get a lock now do not touch it for a while.
    holders_idle: AtomicBool,
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
    pub(crate) programs: Programs,
    /// Leases, waits and pauses last milliseconds. Clients leave while they wait, grants move between sessions.
    pub(crate) hurry: bool,
}

/// Which owners queue their calls in sessions, and what the programs do that poll these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Programs {
    /// A few.
    #[default]
    Few,
    /// Most.
    Most,
    /// Most, in programs that freeze now and then.
    Freeze,
}

impl Programs {
    /// Whether most owners do.
    pub(crate) fn is_usual(self) -> bool {
        self != Self::Few
    }

    /// Whether programs freeze.
    pub(crate) fn freeze(self) -> bool {
        self == Self::Freeze
    }
}

#[derive(Default)]
struct Notes {
    /// Whose connection it is.
    clients: HashMap<ConnectionId, u32>,
    /// Connections that `CLIENT KILL` closed.
    killed: HashSet<ConnectionId>,
    /// When `CLIENT UNBLOCK` last named a connection.
    unblocked: HashMap<ConnectionId, Span>,
    facts: Facts,
}

impl Stage {
    pub(crate) fn new(run: Run, habits: Habits, deployment: Box<dyn Deployment>) -> Self {
        Self {
            run,
            habits,
            deployment,
            sql: Sql::new(),
            holders_idle: AtomicBool::new(false),
            notes: Mutex::default(),
        }
    }

    /// Lets those who get a lock from now on be idle, or no more.
    pub(crate) fn let_holders_idle(&self, idle: bool) {
        self.holders_idle.store(idle, SeqCst);
    }

    /// Whether they are.
    pub(crate) fn holders_idle(&self) -> bool {
        self.holders_idle.load(SeqCst)
    }

    /// Notes whose connection this is.
    pub(crate) fn introduce(&self, connection: ConnectionId, client: u32) {
        self.notes().clients.insert(connection, client);
    }

    /// Whose connection this is.
    pub(crate) fn client_of(&self, connection: ConnectionId) -> Option<u32> {
        self.notes().clients.get(&connection).copied()
    }

    /// Notes that the server has closed this connection by `CLIENT KILL`.
    pub(crate) fn killed(&self, connection: ConnectionId) {
        self.notes().killed.insert(connection);
    }

    /// Whether it was closed by `CLIENT KILL`. That command's own reply may still be on its way.
    pub(crate) fn was_killed(&self, connection: ConnectionId) -> bool {
        let limit = Instant::now() + Duration::from_millis(100);
        while Instant::now() < limit {
            if self.notes().killed.contains(&connection) {
                return true;
            }
            sleep(Duration::from_millis(2));
        }
        false
    }

    /// Notes that this connection is unblocked by `CLIENT UNBLOCK`.
    pub(crate) fn unblocking<T>(&self, connection: ConnectionId, unblock: impl FnOnce() -> T) -> T {
        let from = self.run.now();
        let to = Moment::MAX;
        let began = Span { from, to };
        self.notes().unblocked.insert(connection, began);
        let result = unblock();
        let ended = self.run.since(from);
        self.notes().unblocked.insert(connection, ended);
        result
    }

    /// Whether the reply to a call that was sent then may be due to `CLIENT UNBLOCK`.
    pub(crate) fn was_unblocked(&self, connection: ConnectionId, sent: Moment) -> bool {
        let notes = self.notes();
        let unblocked = notes.unblocked.get(&connection);
        unblocked.is_some_and(|span| span.to >= sent)
    }

    /// Whether this error says nothing of a lock, and is no trouble here: nothing was changed.
    pub(crate) fn is_passing(&self, code: &str) -> bool {
        let is_of_faults = self.habits.hurry && matches!(code, "WRONGTYPE" | "NOSESSION");
        if is_of_faults {
            self.run.count(code, 1);
        }
        is_of_faults || protocol::is_passing(code)
    }

    /// Changes that were acknowledged just before or in this span may be lost.
    pub(crate) fn may_have_lost(&self, span: Span) {
        self.notes().facts.losses.push(span);
    }

    /// True when nothing that was acknowledged may be lost.
    pub(crate) fn has_lost_nothing(&self) -> bool {
        self.notes().facts.losses.is_empty()
    }

    /// Keys may be evicted in this span.
    pub(crate) fn may_evict(&self, span: Span) {
        self.notes().facts.evictions.push(span);
    }

    /// The server's clock was set.
    pub(crate) fn clock_was_set(&self, step: ClockStep) {
        self.notes().facts.steps.push(step);
    }

    /// Ends the servers, tells what was done to them, and gives the run back.
    pub(crate) fn end(self, facts: &mut Facts) -> Run {
        let notes = self.notes.into_inner().expect("no client has panicked");
        *facts = notes.facts;
        self.run
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().expect("no client has panicked")
    }
}
