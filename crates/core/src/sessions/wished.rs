//! Wished.

use super::clock::Now;
use super::polls::PollRefusal;
use super::registry::Sessions;
use super::session::{Connection, SessionId};
use crate::Lease;

/// True when the server can renew such a lease.
#[must_use]
pub const fn can_renew(lease: Lease) -> bool {
    lease.millis() >= 1000
}

impl Sessions {
    /// Whether a POLL would be accepted.
    ///
    /// # Errors
    ///
    /// As for [`poll`](Sessions::poll).
    pub fn may_poll(
        &self,
        id: SessionId,
        user: &[u8],
        database: i32,
        client_id: u64,
    ) -> Result<(), PollRefusal> {
        if !self.knows(id, user, database) {
            return Err(PollRefusal::NoSession);
        }
        match self.live(id) {
            Some(session) if client_id < session.client_id => Err(PollRefusal::NewerConnection),
            Some(_) => Ok(()),
            None => Err(PollRefusal::NoSession),
        }
    }

    /// The connection that polls a session has another user or database than that.
    pub fn detach(&mut self, id: SessionId, now: Now) {
        let alive = self.clock.at(now.monotonic);
        let Some(session) = self.live_mut(id) else {
            return;
        };
        if !session.is_attached() {
            return;
        }
        let client_id = session.client_id;
        session.connection = Connection::Closed;
        session.is_away = true;
        session.poll = None;
        session.heard = alive;
        self.counts.detached += 1;
        self.clients.remove(&(client_id, id));
        self.file(id);
    }

    /// True when a command on this lock has something to renew or to release first.
    #[must_use]
    pub fn has_due_of_lock(&self, database: i32, key: &[u8], now: Now) -> bool {
        let Some(lock) = self.grants.lock(database, key) else {
            return false;
        };
        lock.first_due(now.monotonic).is_some()
            || lock.of_sessions(self.releasing.iter().copied()).is_some()
    }
}
