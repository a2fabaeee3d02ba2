//! The grants of one lock that belong to sessions.
//!
//! Each LOCK command first asks which grants of its lock are due, and usually none are. A lock may have thousands of
//! holders, so its grants are kept in order. A lock with one holder, which is the usual case, needs no orders.

use std::collections::{BTreeMap, BTreeSet};

use super::grants::GrantId;
use super::session::SessionId;
use crate::{Monotonic, Token};

/// One grant of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: GrantId,
    pub(super) token: Token,
    pub(super) session: SessionId,
    pub(super) due: Monotonic,
}

#[derive(Debug)]
pub(super) enum LockGrants {
    One(Entry),
    Many(Box<Many>),
}

#[derive(Debug, Default)]
pub(super) struct Many {
    tokens: BTreeMap<Token, (GrantId, SessionId)>,
    /// The grants by their due time. A grant of a detached session leaves this order when it is due, until it is
    /// renewed.
    due: BTreeSet<(Monotonic, GrantId)>,
    sessions: BTreeSet<(SessionId, GrantId)>,
}

impl Many {
    fn insert(&mut self, entry: Entry) {
        self.tokens.insert(entry.token, (entry.id, entry.session));
        self.due.insert((entry.due, entry.id));
        self.sessions.insert((entry.session, entry.id));
    }
}

impl LockGrants {
    /// A grant and its session.
    pub(super) fn get(&self, token: Token) -> Option<(GrantId, SessionId)> {
        match self {
            Self::One(one) => (one.token == token).then_some((one.id, one.session)),
            Self::Many(many) => many.tokens.get(&token).copied(),
        }
    }

    /// Adds a grant. Does nothing if it is already the only one.
    pub(super) fn insert(&mut self, entry: Entry) {
        if let Self::One(one) = *self {
            if one.id == entry.id {
                return;
            }
            let mut many = Box::<Many>::default();
            many.insert(one);
            *self = Self::Many(many);
        }
        if let Self::Many(many) = self {
            many.insert(entry);
        }
    }

    /// Removes a grant. Returns true if none are left.
    pub(super) fn remove(&mut self, entry: Entry) -> bool {
        match self {
            Self::One(one) => one.id == entry.id,
            Self::Many(many) => {
                many.tokens.remove(&entry.token);
                many.due.remove(&(entry.due, entry.id));
                many.sessions.remove(&(entry.session, entry.id));
                many.tokens.is_empty()
            }
        }
    }

    /// Changes the due time of a grant that was due at `before`.
    pub(super) fn set_due(&mut self, id: GrantId, before: Monotonic, due: Monotonic) {
        match self {
            Self::One(one) => one.due = due,
            Self::Many(many) => {
                many.due.remove(&(before, id));
                many.due.insert((due, id));
            }
        }
    }

    /// The grant that is due first, if it is due now.
    pub(super) fn first_due(&self, now: Monotonic) -> Option<(Monotonic, GrantId)> {
        let first = match self {
            Self::One(one) => Some((one.due, one.id)),
            Self::Many(many) => many.due.first().copied(),
        };
        first.filter(|(due, _)| *due <= now)
    }

    /// Removes a grant from the order of due grants, until it gets a new due time. Returns true if other grants may
    /// follow it in the order.
    pub(super) fn park(&mut self, due: Monotonic, id: GrantId) -> bool {
        match self {
            Self::One(_) => false,
            Self::Many(many) => many.due.remove(&(due, id)),
        }
    }

    /// A grant of one of these sessions.
    pub(super) fn of_sessions(
        &self,
        mut sessions: impl Iterator<Item = SessionId>,
    ) -> Option<GrantId> {
        match self {
            Self::One(one) => sessions.any(|id| id == one.session).then_some(one.id),
            Self::Many(many) => sessions.find_map(|session| {
                let next = many.sessions.range((session, 0)..).next();
                next.filter(|(of, _)| *of == session).map(|(_, id)| *id)
            }),
        }
    }

    pub(super) fn ids(&self) -> Vec<GrantId> {
        match self {
            Self::One(one) => vec![one.id],
            Self::Many(many) => many.tokens.values().map(|(id, _)| *id).collect(),
        }
    }

    /// Panics unless the orders fit these grants.
    #[cfg(test)]
    pub(super) fn check(&self, entries: &[Entry]) {
        match self {
            Self::One(one) => assert_eq!(entries, [*one]),
            Self::Many(many) => {
                let tokens = entries.iter();
                let tokens = tokens.map(|entry| (entry.token, (entry.id, entry.session)));
                assert_eq!(many.tokens, tokens.collect());
                let due = entries.iter().map(|entry| (entry.due, entry.id)).collect();
                assert!(many.due.is_subset(&due), "what is parked is missing");
                let sessions = entries.iter().map(|entry| (entry.session, entry.id));
                assert_eq!(many.sessions, sessions.collect());
            }
        }
    }
}
