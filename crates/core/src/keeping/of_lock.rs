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

#[derive(Debug, Default)]
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

    /// Adds a grant; `due_of` says when another is due.
    pub(super) fn insert(
        &mut self,
        token: Token,
        id: GrantId,
        due: Due,
        due_of: impl Fn(GrantId) -> Option<Due>,
    ) {
        match self {
            Self::One(present, other) if *present != token => {
                let grants = BTreeMap::from([(*present, *other), (token, id)]);
                let mut order = BTreeSet::from([(due.since(), id)]);
                order.extend(due_of(*other).map(|due| (due.since(), *other)));
                let due = order;
                *self = Self::Many(Many { grants, due });
            }
            Self::One(_, present) => *present = id,
            Self::Many(many) => {
                many.grants.insert(token, id);
                many.due.insert((due.since(), id));
            }
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

    /// Panics when the order does not fit the grants.
    #[cfg(test)]
    pub(super) fn check(&self, due_of: impl Fn(GrantId) -> Option<Due>) {
        if let Self::Many(many) = self {
            let ids = many.grants.values();
            let due: BTreeSet<_> = ids
                .map(|id| (due_of(*id).expect("a grant").since(), *id))
                .collect();
            assert_eq!(many.due, due, "the order of what is due");
        }
    }
}
