//! FLUSHALL, FLUSHDB and SWAPDB: thousands of grants are lost at once, and reported little by little.

use super::clock::Now;
use super::event::LossReason;
use super::grants::{GrantId, SessionGrant};
use super::registry::Sessions;
use crate::{Map, Set};

/// The grants of flushed databases that are to be reported.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    /// Some may be reported already.
    grants: Vec<GrantId>,
    /// The last grant of each database before the flush, and the reason.
    databases: Map<i32, (GrantId, LossReason)>,
}

impl Sessions {
    /// All grants of this database, or of all, were lost. They are reported by
    /// [`report_flushed`](Sessions::report_flushed), and those of a lock that is about to be granted by
    /// [`report_flushed_of`](Sessions::report_flushed_of). O(n), at little cost for each.
    pub fn flushed(&mut self, database: Option<i32>, reason: LossReason) {
        let last = self.grants.last_id();
        let databases: Set<_> = match database {
            Some(one) => [one].into_iter().collect(),
            None => self
                .grants
                .iter()
                .map(|grant| grant.lock_id.database)
                .collect(),
        };
        for database in databases {
            let before = (last, reason);
            self.flushed.databases.insert(database, before);
        }
        let grants = self.grants.iter();
        let flushed = grants.filter(|grant| self.flush_of(grant).is_some());
        let flushed: Vec<_> = flushed.map(|grant| grant.id).collect();
        self.flushed.grants = flushed;
    }

    /// Reports up to `max` grants that were flushed. True when more are left.
    pub fn report_flushed(&mut self, max: usize, now: Now) -> bool {
        for _ in 0..max {
            let Some(id) = self.flushed.grants.pop() else {
                break;
            };
            self.lose(id, LossReason::Flushed, now);
        }
        if self.flushed.grants.is_empty() {
            self.flushed = Flushed::default();
        }
        self.has_flushed()
    }

    /// Reports the grants of a lock that were flushed. Call this before the lock is granted.
    pub fn report_flushed_of(&mut self, database: i32, key: &[u8], now: Now) {
        if !self.flushed.databases.contains_key(&database) {
            return;
        }
        for id in self.grants.of_lock(database, key) {
            let node = self.grants.get(id);
            if node.is_some_and(|node| self.flush_of(&node.grant).is_some()) {
                self.lose(id, LossReason::Flushed, now);
            }
        }
    }

    /// True while [`report_flushed`](Sessions::report_flushed) has something to do.
    #[must_use]
    pub const fn has_flushed(&self) -> bool {
        !self.flushed.grants.is_empty()
    }

    /// Why a grant was lost with its database, if it was.
    pub(super) fn flush_of(&self, grant: &SessionGrant) -> Option<LossReason> {
        let (last, reason) = *self.flushed.databases.get(&grant.lock_id.database)?;
        (grant.id <= last).then_some(reason)
    }
}
