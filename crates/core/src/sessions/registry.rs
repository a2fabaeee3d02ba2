//! The registry of a server's sessions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::clock::Now;
use super::event::{EventKind, Events, FULL};
use super::flushes::Flushed;
use super::grants::{GrantId, GrantName, Grants, Node, SessionGrant};
use super::orders::{Filed, Orders};
use super::polls::Poll;
use super::renewals::Late;
use super::session::{Session, SessionId, SessionTimeout, State};
use super::unfiled::Unfiled;
use crate::shards::Shards;
use crate::{Deadline, Lease, Monotonic, OwnerBuf};

/// All sessions of a server, with their grants and events.
#[derive(Debug, Default)]
pub struct Sessions {
    pub(super) table: Shards<SessionId, Session>,
    /// The sessions of each polling connection that is open.
    pub(super) clients: BTreeSet<(u64, SessionId)>,
    pub(super) grants: Grants,
    pub(super) unfiled: Unfiled,
    pub(super) orders: Orders,
    /// Closed sessions with grants to release.
    pub(super) releasing: VecDeque<SessionId>,
    /// Silent sessions with grants to forget.
    pub(super) forgotten: VecDeque<SessionId>,
    pub(super) flushed: Flushed,
    pub(super) late: Option<Late>,
    /// How long the server has been stalled or paused so far.
    pub(super) stalled: Duration,
    pub(super) counts: Counts,
}

/// The figures about sessions in `INFO lock`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Open sessions.
    pub sessions: usize,
    /// Open sessions that are detached.
    pub detached: usize,
    /// Grants in open sessions.
    pub grants: usize,
    /// Renewals so far.
    pub renewals: u64,
    /// Events of the kind `lost` so far.
    pub losses: u64,
    /// Sessions that ended by silence so far.
    pub silent: u64,
}

/// The settings of a new session, from OPEN.
#[derive(Clone, Copy, Debug)]
pub struct Opening<'a> {
    /// The ACL user of the connection.
    pub user: &'a [u8],
    /// The database of the connection.
    pub database: i32,
    /// The connection's client id.
    pub client_id: u64,
    /// The name, for operators.
    pub name: &'a [u8],
    /// How long the program may fail to poll.
    pub timeout: SessionTimeout,
}

/// The description of a session in LIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Its name.
    pub name: Box<[u8]>,
    /// The connection that polls it; 0: it is detached.
    pub client_id: u64,
    /// Its user.
    pub user: Box<[u8]>,
    /// Its database.
    pub database: i32,
    /// Its timeout.
    pub timeout: SessionTimeout,
    /// How long it has been silent.
    pub idle: Duration,
    /// How long it has been open.
    pub age: Duration,
    /// How many grants it has.
    pub grants: usize,
    /// How many of its events are not acknowledged.
    pub events: usize,
}

/// The place of an iteration over the grants of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct GrantPlace((Monotonic, GrantId));

impl Sessions {
    /// A registry without sessions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The numbers for `INFO lock`.
    #[must_use]
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns true if nothing is left to do until a session is opened.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.table.len() == 0
    }

    /// Opens a session that the connection polls. Returns false if the id is in use; the caller then tries another id.
    #[must_use]
    pub fn open(&mut self, id: SessionId, opening: Opening<'_>, now: Now) -> bool {
        if self.table.get(&id).is_some() {
            return false;
        }
        let alive = self.alive(now);
        let session = Session {
            user: opening.user.into(),
            database: opening.database,
            name: opening.name.into(),
            timeout: opening.timeout,
            opened: now.monotonic,
            state: State::Live,
            client_id: opening.client_id,
            is_attached: true,
            poll: None,
            heard: alive,
            replied: alive,
            is_away: false,
            events: Events::default(),
            grants: 0,
            due: BTreeSet::new(),
            ends: BTreeSet::new(),
            leases: BTreeMap::new(),
            filed: Filed::default(),
        };
        self.table.insert(id, session);
        self.clients.insert((opening.client_id, id));
        self.counts.sessions += 1;
        self.update(id, |_| ());
        true
    }

    /// Returns true if the session is open and belongs to this user and database. Otherwise a command that names it
    /// gets `NOSESSION`.
    #[must_use]
    pub fn knows(&self, id: SessionId, user: &[u8], database: i32) -> bool {
        let session = self.live(id);
        session.is_some_and(|session| session.belongs_to(user, database))
    }

    /// Returns true if the session is open, whoever its user is.
    #[must_use]
    pub fn is_open(&self, id: SessionId) -> bool {
        self.live(id).is_some()
    }

    /// Returns true if the session has so many unacknowledged events that it accepts no new grant and no new wait
    /// (`MAXWAITERS`).
    #[must_use]
    pub fn is_full(&self, id: SessionId) -> bool {
        self.live(id)
            .is_some_and(|session| session.events.len() >= FULL)
    }

    /// The connection that polls a session; `None` while it is detached.
    #[must_use]
    pub fn client_of(&self, id: SessionId) -> Option<u64> {
        let session = self.live(id)?;
        session.is_attached.then_some(session.client_id)
    }

    /// The open session that a grant belongs to.
    #[must_use]
    pub fn session_of(&self, name: GrantName<'_>) -> Option<SessionId> {
        self.find(name).map(|(_, session)| session)
    }

    /// The next grant of a session after `place`, for GRANTS. Moves `place` to that grant.
    #[must_use]
    pub fn next_grant(&self, id: SessionId, place: &mut GrantPlace) -> Option<SessionGrant> {
        let behind = (Bound::Excluded(place.0), Bound::Unbounded);
        let next = self.live(id)?.due.range(behind).next().copied();
        let unfiled = self.unfiled().filter(|node| node.grant.session == id);
        let unfiled = unfiled.map(|node| (node.due, node.grant.id));
        let unfiled = unfiled.filter(|next| *next > place.0);
        place.0 = unfiled.chain(next).min()?;
        self.grant(place.0.1)
    }

    /// The grants of a lock that belong to sessions.
    #[must_use]
    pub fn grants_of_lock(&self, database: i32, key: &[u8]) -> Vec<SessionGrant> {
        let ids = self.grants.of_lock(database, key).into_iter();
        ids.filter_map(|id| self.grant(id)).collect()
    }

    /// At most `max` open sessions, oldest first, for LIST.
    #[must_use]
    pub fn list(&self, max: usize, now: Now) -> Vec<SessionInfo> {
        let alive = self.alive(now);
        let live = self.table.iter().filter(|(_, session)| session.is_live());
        let mut oldest: Vec<_> = live.map(|(id, session)| (session.opened, *id)).collect();
        oldest.sort_unstable();
        let oldest = oldest.into_iter().take(max);
        let info = |(opened, id): (Monotonic, SessionId)| {
            let session = self.live(id)?;
            let is_silent = session.poll.is_none();
            Some(SessionInfo {
                id,
                name: session.name.clone(),
                client_id: if session.is_attached {
                    session.client_id
                } else {
                    0
                },
                user: session.user.clone(),
                database: session.database,
                timeout: session.timeout,
                idle: if is_silent {
                    alive.since(session.heard)
                } else {
                    Duration::ZERO
                },
                age: now.monotonic.since(opened),
                grants: session.grants,
                events: session.events.len(),
            })
        };
        oldest.filter_map(info).collect()
    }

    /// Adds an event to an open session. [`next_poll`](Sessions::next_poll) then returns the session, if a POLL waits.
    pub fn report(&mut self, id: SessionId, key: &Arc<[u8]>, owner: &OwnerBuf, kind: EventKind) {
        let is_loss = matches!(kind, EventKind::Lost { .. });
        let reported = self.update(id, |session| {
            session.events.push(key.clone(), owner.clone(), kind);
            session.poll.as_mut().map(Poll::wake);
        });
        self.counts.losses += u64::from(is_loss && reported.is_some());
    }

    /// The current time on the clock without stalls and pauses, which measures silence.
    pub(super) fn alive(&self, now: Now) -> Monotonic {
        now.without(self.stalled)
    }

    pub(super) fn live(&self, id: SessionId) -> Option<&Session> {
        self.table.get(&id).filter(|session| session.is_live())
    }

    /// Changes an open session, and updates its place in the orders.
    pub(super) fn update<T>(
        &mut self,
        id: SessionId,
        change: impl FnOnce(&mut Session) -> T,
    ) -> Option<T> {
        let session = self.table.get_mut(&id);
        let session = session.filter(|session| session.is_live())?;
        let result = change(session);
        self.orders.file(id, session);
        Some(result)
    }

    /// The grant and its session, if the session is open.
    pub(super) fn find(&self, name: GrantName<'_>) -> Option<(GrantId, SessionId)> {
        let found = self.grants.find(name);
        found.filter(|(_, session)| self.live(*session).is_some())
    }

    pub(super) fn grant(&self, id: GrantId) -> Option<SessionGrant> {
        Some(self.grants.get(id)?.grant.clone())
    }

    /// Adds a grant to an open session.
    pub(super) fn add(&mut self, grant: SessionGrant, due: Monotonic) {
        let of = grant.session;
        self.grants.insert(Node { grant, due });
        self.unfiled.push(due);
        if let Some(session) = self.table.get_mut(&of) {
            session.grants += 1;
            if let Some(poll) = session.poll.as_mut() {
                poll.hurry(due);
                self.orders.file(of, session);
            }
        }
        self.counts.grants += 1;
        self.limit_unfiled();
    }

    /// Changes a grant's lease, deadline and due time.
    pub(super) fn set(&mut self, id: GrantId, lease: Lease, deadline: Deadline, due: Monotonic) {
        let before = self.grants.set(id, lease, deadline, due);
        if self.unfiled.has(id) {
            self.unfiled.due_at(due);
        } else if let Some((of, lease_before, due_before)) = before
            && let Some(session) = self.table.get_mut(&of)
        {
            session.remove(id, lease_before, due_before);
            session.add(id, (lease, deadline), due);
            self.orders.file(of, session);
        }
    }

    /// Removes a grant from all tables and orders.
    pub(super) fn remove(&mut self, id: GrantId) -> Option<SessionGrant> {
        let Node { grant, due } = self.grants.remove(id)?;
        let session = self.table.get_mut(&grant.session)?;
        session.grants -= 1;
        self.counts.grants -= usize::from(session.is_live());
        if self.unfiled.has(id) {
            self.unfiled.remove(id);
        } else {
            session.remove(id, (grant.lease, grant.deadline), due);
            self.orders.file(grant.session, session);
        }
        Some(grant)
    }
}
