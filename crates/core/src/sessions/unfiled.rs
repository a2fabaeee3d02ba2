//! New grants, which are not in the orders yet.
//!
//! No grant is due earlier than a third of a second after it joins, and most grants are released by then. So a grant
//! enters the orders only when they are needed, or when many others have joined after it.

use std::collections::VecDeque;

use super::grants::{GrantId, Node};
use super::registry::Sessions;
use crate::Monotonic;

/// The maximum number of grants that are not in the orders.
const MOST: usize = 1000;

/// Which grants are not in the orders. Ids increase, so these are all grants after `filed`.
#[derive(Debug, Default)]
pub(super) struct Unfiled {
    /// The last grant that has entered the orders, or was removed before it could.
    filed: GrantId,
    /// Whether each grant after it still exists.
    exist: VecDeque<bool>,
    /// A lower bound for the due times of these grants.
    due: Option<Monotonic>,
}

impl Unfiled {
    pub(super) const fn has(&self, id: GrantId) -> bool {
        id > self.filed
    }

    /// Adds a new grant.
    pub(super) fn push(&mut self, due: Monotonic) {
        self.exist.push_back(true);
        self.due_at(due);
    }

    /// Records that one of these grants was removed.
    pub(super) fn remove(&mut self, id: GrantId) {
        let place = usize::try_from(id - self.filed - 1).ok();
        if let Some(exists) = place.and_then(|place| self.exist.get_mut(place)) {
            *exists = false;
        }
    }

    /// Records that one of these grants is due at this time.
    pub(super) fn due_at(&mut self, due: Monotonic) {
        self.due = Some(self.due.map_or(due, |first| first.min(due)));
    }
}

impl Sessions {
    /// Adds the new grants to the orders. This changes no result, but makes the methods that take `&self` cheaper.
    pub fn file_grants(&mut self) {
        while !self.unfiled.exist.is_empty() {
            self.file_next();
        }
        self.unfiled.due = None;
    }

    /// Returns false if no grant on the server is due or has to be released.
    #[must_use]
    pub fn may_have_due(&self, now: Monotonic) -> bool {
        let first = self.orders.due.first().map(|(at, _)| *at);
        let mut due = first.into_iter().chain(self.unfiled.due);
        self.has_to_release() || due.any(|at| at <= now)
    }

    /// Adds the oldest of the new grants to the orders if there are too many.
    pub(super) fn limit_unfiled(&mut self) {
        if self.unfiled.exist.len() > MOST {
            self.file_next();
        }
    }

    pub(super) fn unfiled(&self) -> impl Iterator<Item = &Node> {
        let ids = self.unfiled.filed + 1..=self.grants.last_id();
        ids.filter_map(|id| self.grants.get(id))
    }

    fn file_next(&mut self) {
        self.unfiled.filed += 1;
        let id = self.unfiled.filed;
        let exists = self.unfiled.exist.pop_front() == Some(true);
        if let Some(Node { grant, due }) = exists.then(|| self.grants.get(id)).flatten() {
            let (of, lease, deadline, due) = (grant.session, grant.lease, grant.deadline, *due);
            self.update(of, |session| session.add(id, (lease, deadline), due));
        }
    }
}
