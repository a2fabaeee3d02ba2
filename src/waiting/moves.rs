//! Which sessions went away or came back, and how far their calls are moved.

use std::collections::BTreeSet;

use redis_lock_core::CallId;
use redis_lock_core::sessions::SessionId;

/// The sessions whose calls are to be moved.
#[derive(Default)]
pub(super) struct Moves {
    sessions: BTreeSet<SessionId>,
    /// One of them, some of whose calls are moved already: the call to go on with.
    next: Option<(SessionId, CallId)>,
}

impl Moves {
    /// True while calls are being moved: no lock has an order then.
    pub(super) fn are_under_way(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// The calls of this session are to be moved from the beginning.
    pub(super) fn add(&mut self, session: SessionId) {
        self.next.take_if(|(moving, _)| *moving == session);
        self.sessions.insert(session);
    }

    /// The session whose calls come next.
    pub(super) fn first(&self) -> Option<SessionId> {
        self.sessions.first().copied()
    }

    /// The call of this session to go on with; `None` for the first one.
    pub(super) fn from(&self, session: SessionId) -> Option<CallId> {
        let (_, call) = self.next.filter(|(moving, _)| *moving == session)?;
        Some(call)
    }

    /// The calls of this session before `next` are moved, or all.
    pub(super) fn go_on(&mut self, session: SessionId, next: Option<CallId>) {
        self.next = next.map(|call| (session, call));
        if next.is_none() {
            self.sessions.remove(&session);
        }
    }
}
