//! What is so: the clocks, the locks, the clients and what each keeps, as naively as can be.

use std::collections::{BTreeMap, BTreeSet};

use crate::keeping::{GrantName, KeptGrant, KeptGrants, Now, Silence};
use crate::{Deadline, Lease, Monotonic, Token, UnixTime};

pub(super) const MILLI: u64 = 1000;
/// Locks below this number have one holder, the others are shared.
pub(super) const EXCLUSIVE: u8 = 2;
pub(super) const LOCKS: u8 = 4;
pub(super) const CLIENTS: usize = 4;

/// A lock and a token.
pub(super) type Name = (u8, u64);

pub(super) fn token(number: u64) -> Token {
    Token::new(number).unwrap()
}

pub(super) fn lease(ms: u64) -> Lease {
    Lease::from_millis(ms).unwrap()
}

pub(super) fn silence(ms: u64) -> Silence {
    Silence::from_millis(ms).unwrap()
}

/// Locks of odd numbers lie in another database.
pub(super) fn database(lock: u8) -> i32 {
    i32::from(lock % 2)
}

/// Calls `f` with the name as the registry takes it.
pub(super) fn with<T>((lock, number): Name, f: impl FnOnce(GrantName<'_>) -> T) -> T {
    f(GrantName {
        database: database(lock),
        key: &[lock],
        token: token(number),
    })
}

pub(super) fn name_of(grant: &KeptGrant) -> Name {
    assert_eq!(grant.lock_id.database, database(grant.lock_id.key[0]));
    (grant.lock_id.key[0], grant.token.number())
}

/// A grant as its lock has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) lease: u64,
    /// `None` after `PERSIST`.
    pub(super) deadline: Option<u64>,
    /// When its lease began, by the monotonic clock.
    pub(super) began: u64,
    /// A `PERSIST` was lifted by hand: its lease began with less than its length.
    pub(super) is_lifted: bool,
    /// And the module has not looked since.
    pub(super) is_unseen: bool,
}

impl Standing {
    pub(super) fn deadline(&self) -> Deadline {
        self.deadline.map_or(Deadline::Never, Deadline::At)
    }

    pub(super) fn third(&self) -> u64 {
        self.lease * MILLI / 3
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Keeping {
    pub(super) client: u64,
    pub(super) silence: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Client {
    pub(super) id: u64,
    pub(super) is_open: bool,
    /// When it sent something last, by the clock that stands still in stalls.
    pub(super) sent: u64,
    /// How far the wall clock was set back in all until then.
    pub(super) set_back: u64,
    /// The longest it was silent before something that it sent a moment ago, and when that was.
    pub(super) was_silent: (u64, u64),
    /// What it sent is not read yet.
    pub(super) is_unread: bool,
    /// The second in which the server last heard from it.
    pub(super) noted: u64,
    /// How often it sends something; 0: never.
    pub(super) pace: u64,
    pub(super) sends_next: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Everything may be written.
    Free,
    /// Nothing may be written.
    NoWrites,
    /// And no client is served.
    Paused,
    /// This lock may not be written.
    Down(u8),
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) registry: KeptGrants,
    pub(super) standing: BTreeMap<Name, Standing>,
    pub(super) keeping: BTreeMap<Name, Keeping>,
    pub(super) clients: Vec<Client>,
    pub(super) mode: Mode,
    /// Microseconds of the monotonic clock.
    pub(super) now: u64,
    /// How far the wall clock is ahead of it.
    pub(super) ahead: u64,
    /// For how long the server stalled or was paused.
    pub(super) stalled: u64,
    /// The wall clock as the server last read it.
    pub(super) cached: u64,
    /// How long the server leaves its clock unread: it lags by a tick.
    pub(super) lags: bool,
    /// The length of a tick.
    pub(super) tick: u64,
    /// How far the wall clock was set back in all: a second comes again.
    pub(super) set_back: u64,
    /// When the hold-up ended or the lock came back.
    pub(super) resumed: Option<u64>,
    /// The length of the stall before this iteration.
    pub(super) stall: u64,
    pub(super) last_token: u64,
    /// What has happened, to see that the histories reach it.
    pub(super) reached: BTreeSet<&'static str>,
}

impl World {
    pub(super) fn new(tick: u64, lags: bool) -> Self {
        let clients = (1..=CLIENTS as u64).map(|id| Client {
            id,
            is_open: true,
            sent: 0,
            set_back: 0,
            was_silent: (0, 0),
            is_unread: false,
            noted: 0,
            pace: 0,
            sends_next: 0,
        });
        Self {
            registry: KeptGrants::new(),
            standing: BTreeMap::new(),
            keeping: BTreeMap::new(),
            clients: clients.collect(),
            mode: Mode::Free,
            now: 5_000_000,
            ahead: 1_000_000_000_000,
            stalled: 0,
            cached: 1_000_000_000_000,
            lags,
            tick,
            set_back: 0,
            resumed: None,
            stall: 0,
            last_token: 0,
            reached: BTreeSet::new(),
        }
    }

    pub(super) fn time(&self) -> Now {
        Now {
            monotonic: Monotonic(self.now),
            unix: UnixTime::from_micros(self.wall()),
        }
    }

    pub(super) fn wall(&self) -> u64 {
        self.now + self.ahead
    }

    pub(super) fn millis(&self) -> u64 {
        self.wall() / MILLI
    }

    /// The clock that stands still in stalls.
    pub(super) fn alive(&self) -> u64 {
        self.now - self.stalled
    }

    pub(super) fn client(&mut self, id: u64) -> Option<&mut Client> {
        self.clients.iter_mut().find(|client| client.id == id)
    }

    /// The grant stands: its lease has not ended.
    pub(super) fn stands(&self, name: Name) -> Option<Standing> {
        let standing = self.standing.get(&name).copied()?;
        let ended = standing.deadline.is_some_and(|end| end < self.millis());
        (!ended).then_some(standing)
    }

    pub(super) fn is_due(&self, name: Name) -> bool {
        let standing = &self.standing[&name];
        standing.deadline.is_some() && self.now - standing.began >= standing.third()
    }

    /// Less than a third of the lease is left.
    pub(super) fn is_short(&self, standing: &Standing) -> bool {
        let left = standing
            .deadline
            .map(|end| end.saturating_sub(self.millis()));
        left.is_some_and(|left| left * MILLI < standing.third())
    }

    /// The connection is closed, and nothing is kept by it any more.
    pub(super) fn closed(&mut self, id: u64) {
        self.keeping.retain(|_, keeping| keeping.client != id);
        let client = self.client(id).expect("a client that is not closed yet");
        assert!(client.is_open, "{id} is closed once");
        client.is_open = false;
    }

    /// The client sends something, which the server reads later.
    pub(super) fn send(&mut self, index: usize) {
        let (alive, set_back) = (self.alive(), self.set_back);
        let client = &mut self.clients[index];
        client.set_back = set_back;
        let silent = alive - client.sent;
        if silent >= client.was_silent.0 || client.was_silent.1 + 1_000_000 < alive {
            client.was_silent = (silent, alive);
        }
        client.sent = alive;
        client.is_unread = true;
    }

    /// The shortest silence of the client's grants.
    pub(super) fn may_be_silent(&self, id: u64) -> Option<u64> {
        let kept = self.keeping.values().filter(|kept| kept.client == id);
        kept.map(|kept| kept.silence * MILLI).min()
    }

    /// The registry knows what is kept, and nothing else.
    pub(super) fn agree(&self) {
        self.registry.check();
        for lock in 0..LOCKS {
            self.registry
                .check_due_of(database(lock), &[lock], self.time());
        }
        assert_eq!(self.registry.len(), self.keeping.len());
        for name in self.standing.keys().chain(self.keeping.keys()) {
            let known = with(*name, |name| self.registry.get(name));
            let known = known.map(|kept| (kept.client_id, kept.silence.millis()));
            let kept = self.keeping.get(name);
            assert_eq!(known, kept.map(|kept| (kept.client, kept.silence)));
        }
    }
}
