//! Grants that have joined lately, and are in no order yet.
//!
//! No grant is due before a third of a second has passed, and most are released by then. So a grant enters the orders
//! when they are asked for, or when many others have joined after it.

use super::grants::{GrantId, Node};
use super::registry::Sessions;
use crate::Monotonic;

/// No more grants than these are in no order.
const MOST: GrantId = 1000;

/// Which grants are in no order. Ids rise, so it is all from one on.
#[derive(Debug, Default)]
pub(super) struct Unfiled {
    /// The last grant that is in the orders, or was when it was removed.
    filed: GrantId,
    /// None of them is due earlier.
    due: Option<Monotonic>,
}

impl Unfiled {
    pub(super) const fn has(&self, id: GrantId) -> bool {
        id > self.filed
    }

    /// One of them is due then.
    pub(super) fn due_at(&mut self, due: Monotonic) {
        self.due = Some(self.due.map_or(due, |first| first.min(due)));
    }
}

impl Sessions {
    /// Takes the grants that have joined lately into the orders. It changes no answer, but those that do not take a
    /// `&mut self` cost less afterwards.
    pub fn file_grants(&mut self) {
        while self.unfiled.has(self.grants.last_id()) {
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

    /// A grant has joined. With so many others, the first of them enters the orders.
    pub(super) fn limit_unfiled(&mut self) {
        let last = self.grants.last_id();
        if self.unfiled.has(last.saturating_sub(MOST)) {
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
        if let Some(Node { grant, due }) = self.grants.get(id) {
            let (of, lease, deadline, due) = (grant.session, grant.lease, grant.deadline, *due);
            self.update(of, |session| session.add(id, (lease, deadline), due));
        }
    }
}
