//! The kept grants of one lock: by token, and in the order in which they come due.
//!
//! What is due is asked before every command on the lock, and mostly nothing is. A lock may have thousands of
//! kept shares, so they are not looked through.

use std::collections::{BTreeMap, BTreeSet};

use super::grants::GrantId;
use crate::{Monotonic, Token};

/// When something is to be done about a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// When to do something about it.
    pub(super) timer: Monotonic,
    /// It is due, and could not be renewed.
    pub(super) is_held_up: bool,
}

impl Due {
    /// Since when it is due, or from when on: one that is held up always is.
    pub(super) const fn since(self) -> Monotonic {
        if self.is_held_up {
            Monotonic(0)
        } else {
            self.timer
        }
    }
}

/// The kept grants of a lock.
#[derive(Debug)]
pub(super) enum OfLock {
    One(Token, GrantId),
    Many(Many),
}

#[derive(Debug)]
pub(super) struct Many {
    grants: BTreeMap<Token, GrantId>,
    due: BTreeSet<(Monotonic, GrantId)>,
}

impl OfLock {
    pub(super) fn get(&self, token: Token) -> Option<GrantId> {
        match self {
            Self::One(present, id) => (*present == token).then_some(*id),
            Self::Many(many) => many.grants.get(&token).copied(),
        }
    }

    /// Makes room for more than the one grant, which is due then.
    pub(super) fn become_many(&mut self, due: Due) {
        if let Self::One(token, id) = *self {
            *self = Self::Many(Many {
                grants: BTreeMap::from([(token, id)]),
                due: BTreeSet::from([(due.since(), id)]),
            });
        }
    }

    /// Adds a grant where there is room for many.
    pub(super) fn insert(&mut self, token: Token, id: GrantId, due: Due) {
        if let Self::Many(many) = self {
            many.grants.insert(token, id);
            many.due.insert((due.since(), id));
        }
    }

    /// Removes the grant with this token; true when none is left.
    pub(super) fn remove(&mut self, token: Token, id: GrantId, due: Due) -> bool {
        match self {
            Self::One(present, _) => *present == token,
            Self::Many(many) => {
                many.grants.remove(&token);
                many.due.remove(&(due.since(), id));
                many.grants.is_empty()
            }
        }
    }

    /// A grant is due at another time than before.
    pub(super) fn moved(&mut self, id: GrantId, before: Due, due: Due) {
        if let Self::Many(many) = self {
            many.due.remove(&(before.since(), id));
            many.due.insert((due.since(), id));
        }
    }

    /// The grants that are due; `due_of` says when each is.
    pub(super) fn due(
        &self,
        now: Monotonic,
        due_of: impl Fn(GrantId) -> Option<Due>,
    ) -> impl Iterator<Item = GrantId> {
        let (one, many) = match self {
            Self::One(_, id) => (Some(*id), None),
            Self::Many(many) => (None, Some(many)),
        };
        let one = one.filter(|id| due_of(*id).is_some_and(|due| due.since() <= now));
        let many = many.into_iter().flat_map(move |many| {
            let passed = many.due.iter().take_while(move |(at, _)| *at <= now);
            passed.map(|(_, id)| *id)
        });
        one.into_iter().chain(many)
    }

    pub(super) fn ids(&self) -> Vec<GrantId> {
        match self {
            Self::One(_, id) => vec![*id],
            Self::Many(many) => many.grants.values().copied().collect(),
        }
    }

    /// Panics when the order does not fit the grants, of which `look` tells: when each is due, and whether it
    /// is one of many.
    #[cfg(test)]
    pub(super) fn check(&self, look: impl Fn(GrantId) -> (Due, bool)) {
        match self {
            Self::One(_, id) => assert!(!look(*id).1, "it is alone"),
            Self::Many(many) => {
                let order = many.grants.values().map(|id| {
                    let (due, is_one_of_many) = look(*id);
                    assert!(is_one_of_many, "it is one of many");
                    (due.since(), *id)
                });
                assert_eq!(many.due, order.collect(), "the order of what is due");
            }
        }
    }
}
