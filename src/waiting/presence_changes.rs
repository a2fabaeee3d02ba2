//! Sessions whose program has disconnected, frozen or returned, and how far their calls are updated.

use std::collections::BTreeSet;

use redis_lock_core::sessions::SessionId;
use redis_lock_core::{Calls, PassOverPlace};

/// The most sessions for which a line is searched.
const MAX_LOOKS: usize = 64;

/// The sessions whose calls are to be updated: passed over from now on, or no longer.
#[derive(Default)]
pub(super) struct PresenceChanges {
    sessions: BTreeSet<SessionId>,
    /// One of them, some of whose calls are updated already, and where to continue.
    next: Option<(SessionId, PassOverPlace)>,
}

impl PresenceChanges {
    /// True while calls are left to update.
    pub(super) fn are_under_way(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// True while calls in the line of this lock belong to a session that is still to be updated: until then it is not
    /// known which call is next. More than [`MAX_LOOKS`] sessions count for every line, because a search would take too
    /// long.
    pub(super) fn concern<A>(&self, calls: &Calls<A>, database: i32, key: &[u8]) -> bool {
        self.sessions.len() > MAX_LOOKS || {
            let mut sessions = self.sessions.iter();
            sessions.any(|session| calls.session_waits(*session, database, key))
        }
    }

    /// The calls of this session are to be updated, from the first one.
    pub(super) fn add(&mut self, session: SessionId) {
        self.next.take_if(|(updating, _)| *updating == session);
        self.sessions.insert(session);
    }

    /// The session whose calls come next, and where to continue; `None` for the first call. A session that was begun
    /// is finished first, however many others come and go.
    pub(super) fn first(&self) -> Option<(SessionId, Option<PassOverPlace>)> {
        match self.next {
            Some((session, place)) => Some((session, Some(place))),
            None => Some((*self.sessions.first()?, None)),
        }
    }

    /// The calls of this session before `next` are updated, or all.
    pub(super) fn go_on(&mut self, session: SessionId, next: Option<PassOverPlace>) {
        self.next = next.map(|place| (session, place));
        if next.is_none() {
            self.sessions.remove(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::a_waiter;
    use super::*;

    fn session(number: u64) -> SessionId {
        SessionId::new(number).unwrap()
    }

    /// Calls of session 7 for a lock, and for another.
    fn calls() -> Calls {
        let mut calls = Calls::default();
        for key in [b"lock", b"next"] {
            calls.join(0, key, a_waiter(Some(session(7)), None), ());
        }
        calls
    }

    #[test]
    fn a_session_that_was_begun_is_finished_before_others() {
        let [one, seven] = [1, 7].map(session);
        let place = calls().pass_over(seven, true, None, 1);
        assert!(place.is_some());
        let mut changes = PresenceChanges::default();
        changes.add(seven);
        assert_eq!(changes.first(), Some((seven, None)));
        changes.go_on(seven, place);
        changes.add(one);
        assert_eq!(changes.first(), Some((seven, place)));
        // It has changed again: from the first call, at its turn.
        changes.add(seven);
        assert_eq!(changes.first(), Some((one, None)));
        changes.go_on(one, None);
        changes.go_on(seven, None);
        assert!(!changes.are_under_way());
    }

    #[test]
    fn only_lines_with_calls_of_a_changed_session_wait() {
        let (calls, mut changes) = (calls(), PresenceChanges::default());
        let concern = |changes: &PresenceChanges| {
            [(0, b"lock"), (0, b"else"), (1, b"lock")]
                .map(|(database, key)| changes.concern(&calls, database, key))
        };
        assert_eq!(concern(&changes), [false; 3]);
        for number in 8..=70 {
            changes.add(session(number));
        }
        assert_eq!(concern(&changes), [false; 3]);
        changes.add(session(7));
        assert_eq!(concern(&changes), [true, false, false]);
        changes.add(session(71));
        assert_eq!(concern(&changes), [true; 3], "too many");
    }
}
