//! A snapshot of all servers.

use redis_lock_tool::{Names, Program, Waiter, number, record};
use std::time::Instant;

/// A lock or a program, and its server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) server: String,
    pub(crate) what: What,
}

/// The subject of a row of a table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// The lock of this name.
    Lock(Vec<u8>),
    /// The program of this session.
    Program(i64),
}

record! {
    /// A held lock: the reply of `LOCK.INFO`.
    #[allow(clippy::struct_field_names)] // as the server calls them
    pub(crate) struct Held {
        owner: Vec<u8>,
        token: i64,
        holds: i64,
        lease_ms: i64,
        ttl_ms: i64,
        held_ms: i64,
        waiters: i64,
    }
}

record! {
    /// A hot key: an element of `LOCK.HOTKEYS`.
    pub(crate) struct Hot {
        key: Vec<u8>,
        waits: i64,
        timeouts: i64,
        expirations: i64,
        total_wait_ms: i64,
        longest_wait_ms: i64,
    }
}

/// A lock that is held.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lock {
    pub(crate) key: Vec<u8>,
    pub(crate) held: Held,
    /// The first waiter, which is read only for the longest queues.
    pub(crate) first: Option<Waiter>,
}

/// A lock that a program holds, or waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) key: Vec<u8>,
    pub(crate) owner: Vec<u8>,
    /// How long the program has waited; `None` if it holds the lock.
    pub(crate) waited_ms: Option<i64>,
    /// The time left of the lease or of the wait; -1 if it does not end.
    pub(crate) left_ms: i64,
}

/// The queue of a lock, or the locks of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The holder of a lock, if it is not free, and the waiters.
    Queue(Option<Held>, Vec<Waiter>),
    /// The locks that a program holds or waits for.
    Claims(Vec<Claim>),
}

/// One server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    pub(crate) address: String,
    pub(crate) info: Names,
    /// The number of its keys, of all types.
    pub(crate) keys: i64,
    /// True once all its keys were scanned.
    pub(crate) searched: bool,
    /// Why the server could not be read, or not completely.
    pub(crate) error: Option<String>,
    pub(crate) locks: Vec<Lock>,
    pub(crate) hot: Vec<Hot>,
    pub(crate) programs: Vec<Program>,
}

/// All servers at one time.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) at: Instant,
    pub(crate) servers: Vec<Server>,
}

impl Snapshot {
    /// A snapshot of these servers at the current time.
    pub(crate) fn of(servers: Vec<Server>) -> Self {
        let at = Instant::now();
        Self { at, servers }
    }

    fn server(&self, address: &str) -> Option<&Server> {
        self.servers.iter().find(|one| one.address == address)
    }

    /// The values of a field, from the servers that have it.
    fn numbers(&self, field: &str) -> impl Iterator<Item = i64> {
        let servers = self.servers.iter();
        servers.filter_map(move |server| number(&server.info, field))
    }

    /// The sum of a field over the servers; `None` if no server has it.
    pub(crate) fn sum(&self, field: &str) -> Option<i64> {
        self.numbers(field).reduce(i64::saturating_add)
    }

    /// The largest value of a field.
    pub(crate) fn largest(&self, field: &str) -> Option<i64> {
        self.numbers(field).max()
    }

    /// The increase of a counter per second since an earlier snapshot, over all servers. If a counter is lower than
    /// before, the server was restarted, and the counter counts from 0.
    pub(crate) fn rate(&self, field: &str, before: &Self) -> Option<f64> {
        let seconds = self.at.saturating_duration_since(before.at).as_secs_f64();
        let steps = self.servers.iter().filter_map(|server| {
            let earlier = number(&before.server(&server.address)?.info, field)?;
            let now = number(&server.info, field)?;
            Some(if now < earlier { now } else { now - earlier })
        });
        let total = steps.reduce(i64::saturating_add)?;
        #[allow(clippy::cast_precision_loss)] // shown with one decimal
        (seconds > 0.0).then(|| total as f64 / seconds)
    }

    /// The holder of a lock, if known.
    pub(crate) fn held(&self, server: &str, key: &[u8]) -> Option<&Held> {
        let mut locks = self.server(server)?.locks.iter();
        locks.find(|lock| lock.key == key).map(|lock| &lock.held)
    }

    /// The program of a session, if known.
    pub(crate) fn program(&self, server: &str, session: i64) -> Option<&Program> {
        let mut programs = self.server(server)?.programs.iter();
        programs.find(|program| program.id == session)
    }

    /// Whether the call has no blocked client of its own. A call of an unknown session counts as queued, because
    /// killing the client of a queued call would cut off a whole program.
    pub(crate) fn is_queued(&self, server: &str, call: &Waiter) -> bool {
        let polls = |program: &Program| program.client_id == call.client_id;
        call.session != 0
            && (call.client_id == 0 || self.program(server, call.session).is_none_or(polls))
    }
}
