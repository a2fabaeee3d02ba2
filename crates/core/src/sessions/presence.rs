//! Connections, silence and ends of sessions: whether a program is present, away or gone.

use std::collections::VecDeque;
use std::time::Duration;

use super::clock::Now;
use super::grants::{GrantId, SessionGrant};
use super::registry::Sessions;
use super::session::{SessionId, State};
use crate::Monotonic;

/// The program of a session has not polled in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timeout {
    /// Its last reply is more than a second old and no POLL waits, so its calls are passed over from now on.
    Away(SessionId),
    /// The session has ended by silence. Its calls leave the line, and its leases run out.
    Ended(SessionId),
}

/// Whether a session's program is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// The session has ended.
    Ended,
    /// The program may be dead or frozen, so its calls are passed over.
    Away,
    /// The program polls on this connection.
    Here(u64),
}

/// A session that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Closed {
    /// How many grants the caller has to release.
    pub grants: usize,
    /// The connection whose waiting POLL the caller answers with `NOSESSION`.
    pub waiting: Option<u64>,
}

impl Sessions {
    /// Records that the server has stalled, or has paused its clients, for the last `length`. That time does not count
    /// as silence. Call this first after a stall, and at least ten times a second during a pause.
    pub fn stalled(&mut self, length: Duration) {
        self.stalled = self.stalled.saturating_add(length);
    }

    /// Detaches the sessions that a closed connection polled, and drops their waiting POLLs. Returns the sessions that
    /// were not away before, whose calls must be passed over from now on.
    pub fn disconnected(&mut self, client_id: u64, now: Now) -> Vec<SessionId> {
        let alive = self.alive(now);
        let mut ids = self.polled_by(client_id);
        ids.retain(|id| {
            self.update(*id, |session| session.heard = alive);
            self.detach(*id)
        });
        ids
    }

    /// Marks the sessions of a polling client as away, because it has closed its connection but the server has not read
    /// that yet. Returns the sessions that were not away before. They stay attached until
    /// [`disconnected`](Sessions::disconnected).
    pub fn closing(&mut self, client_id: u64) -> Vec<SessionId> {
        let ids = self.polled_by(client_id).into_iter();
        ids.filter(|id| self.set_away(*id)).collect()
    }

    /// Detaches a session whose polling connection has changed its user or database, which does not count as a sign of
    /// life. No POLL may be waiting. Returns true if the session was not away before.
    pub fn detach(&mut self, id: SessionId) -> bool {
        let left = self.update(id, |session| {
            let was_attached = std::mem::replace(&mut session.is_attached, false);
            was_attached.then(|| {
                session.poll = None;
                session.client_id
            })
        });
        if let Some(client_id) = left.flatten() {
            self.counts.detached += 1;
            self.clients.remove(&(client_id, id));
        }
        self.set_away(id)
    }

    /// Whether the program of a session is present.
    #[must_use]
    pub fn presence(&self, id: SessionId) -> Presence {
        match self.live(id) {
            None => Presence::Ended,
            Some(session) if session.is_away => Presence::Away,
            Some(session) => Presence::Here(session.client_id),
        }
    }

    /// Handles and returns the next session whose program has not polled in time. Call this only after the server has
    /// read its sockets.
    #[must_use]
    pub fn take_timeout(&mut self, now: Now) -> Option<Timeout> {
        let alive = self.alive(now);
        let (at, id) = self.orders.timeouts.first().copied()?;
        if at > alive {
            return None;
        }
        if self.live(id)?.silent_at() > alive {
            self.set_away(id);
            return Some(Timeout::Away(id));
        }
        self.counts.silent += 1;
        self.end(id, State::Forgotten).map(|_| Timeout::Ended(id))
    }

    /// When [`take_timeout`](Sessions::take_timeout) returns a session next, if the server does not stall until then.
    #[must_use]
    pub fn next_timeout_at(&self) -> Option<Monotonic> {
        let (at, _) = self.orders.timeouts.first()?;
        Some(at.plus(self.stalled))
    }

    /// Ends a session for CLOSE or KILL, so that it is unknown from now on. The caller releases the grants that
    /// [`take_to_release`](Sessions::take_to_release) returns. `None` if no such session is open.
    pub fn close(&mut self, id: SessionId) -> Option<Closed> {
        self.end(id, State::Releasing)
    }

    /// Removes and returns a grant of a closed session, all of whose holds the caller has to release.
    #[must_use]
    pub fn take_to_release(&mut self) -> Option<SessionGrant> {
        let id = self.next_of(State::Releasing)?;
        self.remove(id)
    }

    /// Like [`take_to_release`](Sessions::take_to_release), but for one session.
    #[must_use]
    pub fn take_to_release_of_session(&mut self, id: SessionId) -> Option<SessionGrant> {
        let session = self.table.get(&id)?;
        let is_closed = session.state == State::Releasing;
        let (_, grant) = *session.due.first().filter(|_| is_closed)?;
        self.remove(grant)
    }

    /// Like [`take_to_release`](Sessions::take_to_release), but for one lock. Call this before each LOCK command on the
    /// lock.
    #[must_use]
    pub fn take_to_release_of(&mut self, database: i32, key: &[u8]) -> Option<SessionGrant> {
        if self.releasing.is_empty() {
            return None;
        }
        let lock = self.grants.lock(database, key)?;
        let id = lock.of_sessions(self.releasing.iter().copied())?;
        self.remove(id)
    }

    /// Returns true while [`take_to_release`](Sessions::take_to_release) may return a grant.
    #[must_use]
    pub fn has_to_release(&self) -> bool {
        !self.releasing.is_empty()
    }

    /// Forgets up to `max` grants of sessions that ended by silence. Returns true if more are left.
    pub fn sweep(&mut self, max: usize) -> bool {
        for _ in 0..max {
            let Some(id) = self.next_of(State::Forgotten) else {
                return false;
            };
            self.remove(id);
        }
        !self.forgotten.is_empty()
    }

    /// Ends all sessions without releasing their grants, because the server has become a replica.
    pub fn end_all(&mut self) {
        let mut counts = self.counts;
        (counts.sessions, counts.detached, counts.grants) = (0, 0, 0);
        let stalled = self.stalled;
        *self = Self {
            stalled,
            counts,
            ..Self::default()
        };
    }

    pub(super) fn polled_by(&self, client_id: u64) -> Vec<SessionId> {
        let all = (client_id, SessionId::MIN)..=(client_id, SessionId::MAX);
        self.clients.range(all).map(|(_, id)| *id).collect()
    }

    /// Marks a session as away. Returns true if it was not away before.
    fn set_away(&mut self, id: SessionId) -> bool {
        let before = self.update(id, |session| std::mem::replace(&mut session.is_away, true));
        before == Some(false)
    }

    fn end(&mut self, id: SessionId, state: State) -> Option<Closed> {
        self.file_grants();
        let (is_attached, client_id, closed) = self.update(id, |session| {
            session.state = state;
            let client_id = session.client_id;
            let closed = Closed {
                grants: session.grants,
                waiting: session.poll.take().map(|_| client_id),
            };
            (session.is_attached, client_id, closed)
        })?;
        self.clients.remove(&(client_id, id));
        self.counts.sessions -= 1;
        self.counts.detached -= usize::from(!is_attached);
        self.counts.grants -= closed.grants;
        self.ended(state).push_back(id);
        Some(closed)
    }

    /// The queue of ended sessions with this state, which may still have grants.
    fn ended(&mut self, state: State) -> &mut VecDeque<SessionId> {
        match state {
            State::Forgotten => &mut self.forgotten,
            State::Live | State::Releasing => &mut self.releasing,
        }
    }

    /// A grant of an ended session with this state. Drops ended sessions without grants on the way.
    fn next_of(&mut self, state: State) -> Option<GrantId> {
        while let Some(id) = self.ended(state).front().copied() {
            let session = self.table.get(&id);
            if let Some((_, grant)) = session.and_then(|session| session.due.first()) {
                return Some(*grant);
            }
            self.table.remove(&id);
            self.ended(state).pop_front();
        }
        None
    }
}
