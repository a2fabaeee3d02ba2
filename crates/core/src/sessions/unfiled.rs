//! Grants that have joined lately, and are in no order yet.
//!
//! No grant is due before a third of a second has passed, and most are released by then. So a grant enters the orders
//! when they are asked for, or when many others have joined after it.

use std::collections::VecDeque;

use super::grants::{GrantId, Node};
use super::registry::Sessions;
use crate::Monotonic;

/// The maximum number of grants that are in no order.
const MOST: usize = 1000;

/// Which grants are in no order. Ids rise, so these are all grants after `filed`.
#[derive(Debug, Default)]
pub(super) struct Unfiled {
    /// The last grant that is in the orders, or was when it was removed.
    filed: GrantId,
    /// Whether those after it still exist.
    exist: VecDeque<bool>,
    /// None of them is due before this time.
    due: Option<Monotonic>,
}

impl Unfiled {
    pub(super) const fn has(&self, id: GrantId) -> bool {
        id > self.filed
    }

    /// A grant has joined.
    pub(super) fn push(&mut self, due: Monotonic) {
        self.exist.push_back(true);
        self.due_at(due);
    }

    /// One of them is removed.
    pub(super) fn remove(&mut self, id: GrantId) {
        let place = usize::try_from(id - self.filed - 1).ok();
        if let Some(exists) = place.and_then(|place| self.exist.get_mut(place)) {
            *exists = false;
        }
    }

    /// One of them is due at this time.
    pub(super) fn due_at(&mut self, due: Monotonic) {
        self.due = Some(self.due.map_or(due, |first| first.min(due)));
    }
}

impl Sessions {
    /// Takes the grants that have joined lately into the orders. It changes no answer, but the methods that take
    /// `&self` cost less afterwards.
    pub fn file_grants(&mut self) {
        while !self.unfiled.exist.is_empty() {
            self.file_next();
        }
        self.unfiled.due = None;
    }

    /// False when nothing is due on the whole server, and nothing to be released.
    #[must_use]
    pub fn may_have_due(&self, now: Monotonic) -> bool {
        let first = self.orders.due.first().map(|(at, _)| *at);
        let mut due = first.into_iter().chain(self.unfiled.due);
        self.has_to_release() || due.any(|at| at <= now)
    }

    /// A grant has joined. If too many are in no order, the first of them enters the orders.
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
