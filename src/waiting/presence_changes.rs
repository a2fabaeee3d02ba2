//! The sessions whose calls still have to be updated because their program has gone away or polls again.

use std::collections::BTreeSet;

use redis_lock_core::sessions::SessionId;
use redis_lock_core::{Calls, PassOverPlace};

/// The most sessions that are looked up in a line.
const MAX_LOOKS: usize = 64;

/// The sessions whose calls still have to be marked as passed over, or as no longer passed over.
#[derive(Default)]
pub(super) struct PresenceChanges {
    sessions: BTreeSet<SessionId>,
    /// The session that is partly updated, and where to continue.
    next: Option<(SessionId, PassOverPlace)>,
}

impl PresenceChanges {
    /// Returns true while calls are left to update.
    pub(super) fn are_under_way(&self) -> bool {
        !self.sessions.is_empty()
    }

    /// Returns true while a session that still has to be updated has calls in the line of this lock. Until the update
    /// the next call of the line is unknown.
    ///
    /// With more than [`MAX_LOOKS`] sessions this is true for every lock, because a search would take too long.
    pub(super) fn concern<A>(&self, calls: &Calls<A>, database: i32, key: &[u8]) -> bool {
        self.sessions.len() > MAX_LOOKS || {
            let mut sessions = self.sessions.iter();
            sessions.any(|session| calls.session_waits(*session, database, key))
        }
    }

    /// Adds a session, whose calls are then updated from the first one.
    pub(super) fn add(&mut self, session: SessionId) {
        self.next.take_if(|(updating, _)| *updating == session);
        self.sessions.insert(session);
    }

    /// The session to update next, and where to continue; `None` means from its first call. A partly updated session is
    /// finished first, so that a stream of other sessions cannot delay it forever.
    pub(super) fn first(&self) -> Option<(SessionId, Option<PassOverPlace>)> {
        match self.next {
            Some((session, place)) => Some((session, Some(place))),
            None => Some((*self.sessions.first()?, None)),
        }
    }

    /// Records that the calls of this session before `next` are updated; `None` means all of them.
    pub(super) fn set_progress(&mut self, session: SessionId, next: Option<PassOverPlace>) {
        self.next = next.map(|place| (session, place));
        if next.is_none() {
            self.sessions.remove(&session);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_waiter;
    use super::*;

    fn session(number: u64) -> SessionId {
        SessionId::new(number).unwrap()
    }

    /// Session 7 waits for two locks.
    fn calls() -> Calls {
        let mut calls = Calls::default();
        for key in [b"lock", b"next"] {
            calls.join(0, key, test_waiter(Some(session(7)), None), ());
        }
        calls
    }

    #[test]
    fn a_partly_updated_session_is_finished_before_others() {
        let [one, seven] = [1, 7].map(session);
        let place = calls().pass_over(seven, true, None, 1);
        assert!(place.is_some());
        let mut changes = PresenceChanges::default();
        changes.add(seven);
        assert_eq!(changes.first(), Some((seven, None)));
        changes.set_progress(seven, place);
        changes.add(one);
        assert_eq!(changes.first(), Some((seven, place)));
        // Session 7 changes again, so its update restarts later from the first call.
        changes.add(seven);
        assert_eq!(changes.first(), Some((one, None)));
        changes.set_progress(one, None);
        changes.set_progress(seven, None);
        assert!(!changes.are_under_way());
    }

    #[test]
    fn only_lines_with_calls_of_a_changed_session_are_held_up() {
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
