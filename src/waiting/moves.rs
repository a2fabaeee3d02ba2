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

    /// The session whose calls come next, and the call to go on with; `None` for its first one. One that was begun is
    /// finished first, however many others come and go.
    pub(super) fn first(&self) -> Option<(SessionId, Option<CallId>)> {
        match self.next {
            Some((session, call)) => Some((session, Some(call))),
            None => Some((*self.sessions.first()?, None)),
        }
    }

    /// The calls of this session before `next` are moved, or all.
    pub(super) fn go_on(&mut self, session: SessionId, next: Option<CallId>) {
        self.next = next.map(|call| (session, call));
        if next.is_none() {
            self.sessions.remove(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    use redis_lock_core::{Calls, Limit, Monotonic, Owner, OwnerBuf, Waiter};

    use super::*;

    fn call() -> CallId {
        let waiter = Waiter {
            owner: OwnerBuf::from(Owner::new(b"ann").unwrap()),
            lease: None,
            holds: None,
            limit: Limit::ONE,
            keep: None,
            session: SessionId::new(7),
            names_limit: false,
            client_id: None,
            since: Monotonic(0),
            until: None,
        };
        Calls::default().join(0, b"lock", waiter, ())
    }

    #[test]
    fn a_session_that_was_begun_is_finished_before_others() {
        let [one, seven] = [1, 7].map(|number| SessionId::new(number).unwrap());
        let call = call();
        let mut moves = Moves::default();
        moves.add(seven);
        assert_eq!(moves.first(), Some((seven, None)));
        moves.go_on(seven, Some(call));
        moves.add(one);
        assert_eq!(moves.first(), Some((seven, Some(call))));
        // It comes back: from the beginning, when its turn comes.
        moves.add(seven);
        assert_eq!(moves.first(), Some((one, None)));
        moves.go_on(one, None);
        moves.go_on(seven, None);
        assert!(!moves.are_under_way());
    }
}
