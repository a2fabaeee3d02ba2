//! Grants that have joined lately, and are in no order yet.
//!
//! No grant is due before a third of a second has passed, and most are released by then. So a grant enters the orders
//! when they are asked for, or when many others have joined after it.

use super::grants::{GrantId, Node};
use super::registry::Sessions;
use crate::Monotonic;

/// No more grants than these are in no order.
const MOST: GrantId = 1000;

/// Which grants are in no order. Ids rise, so all later grants are newcomers too.
#[derive(Debug, Default)]
pub(super) struct Newcomers {
    /// The last grant that is none.
    before: GrantId,
    /// None of them is due earlier.
    due: Option<Monotonic>,
}

impl Newcomers {
    pub(super) const fn has(&self, id: GrantId) -> bool {
        id > self.before
    }

    /// A newcomer is due then.
    pub(super) fn due_at(&mut self, due: Monotonic) {
        self.due = Some(self.due.map_or(due, |earliest| earliest.min(due)));
    }
}

impl Sessions {
    /// Takes the grants that have joined lately into the orders. Whatever asks for many grants, one by one, calls this
    /// before.
    pub fn file_newcomers(&mut self) {
        while self.newcomers.has(self.grants.last_id()) {
            self.file_newcomer();
        }
        self.newcomers.due = None;
    }

    /// False when nothing is to be renewed or released on the whole server. It costs little.
    #[must_use]
    pub fn may_have_due(&self, now: Monotonic) -> bool {
        let due = self.orders.due.first().map(|(at, _)| *at);
        let mut due = due.into_iter().chain(self.newcomers.due);
        self.has_to_release() || due.any(|at| at <= now)
    }

    /// One more has joined.
    pub(super) fn limit_newcomers(&mut self) {
        if self
            .newcomers
            .has(self.grants.last_id().saturating_sub(MOST))
        {
            self.file_newcomer();
        }
    }

    pub(super) fn newcomers(&self) -> impl Iterator<Item = &Node> {
        let ids = self.newcomers.before + 1..=self.grants.last_id();
        ids.filter_map(|id| self.grants.get(id))
    }

    fn file_newcomer(&mut self) {
        self.newcomers.before += 1;
        let id = self.newcomers.before;
        if let Some(Node { grant, due }) = self.grants.get(id) {
            let (of, lease, deadline, due) = (grant.session, grant.lease, grant.deadline, *due);
            self.update(of, |session| session.add(id, (lease, deadline), due));
        }
    }
}
