//! Reports the grants that FLUSHALL, FLUSHDB or SWAPDB removed. There may be thousands, so they are reported in slices.

use super::clock::Now;
use super::event::LossReason;
use super::grants::{GrantId, SessionGrant};
use super::registry::Sessions;
use crate::Map;

/// The grants of flushed databases that still have to be reported.
#[derive(Debug, Default)]
pub(super) struct Flushed {
    /// The grants, of which some may be reported already.
    grants: Vec<GrantId>,
    /// The last grant of each database before the flush, and the reason.
    databases: Map<i32, (GrantId, LossReason)>,
}

impl Flushed {
    /// Why a grant was lost in a flush; `None` if it was not.
    pub(super) fn reason_of(&self, grant: &SessionGrant) -> Option<LossReason> {
        let (last, reason) = *self.databases.get(&grant.lock_id.database)?;
        (grant.id <= last).then_some(reason)
    }
}

impl Sessions {
    /// Records that all grants of this database, or of all databases, were lost.
    ///
    /// [`report_flushed`](Sessions::report_flushed) then reports them, and
    /// [`report_flushed_of`](Sessions::report_flushed_of) those of a lock that is about to be granted. O(n), at a low
    /// cost for each grant.
    pub fn flushed(&mut self, database: Option<i32>, reason: LossReason) {
        let before = (self.grants.last_id(), reason);
        let flushed = &mut self.flushed;
        flushed.databases.extend(database.map(|one| (one, before)));
        flushed.grants.clear();
        for grant in self.grants.iter() {
            if database.is_none() {
                flushed.databases.insert(grant.lock_id.database, before);
            }
            if flushed.reason_of(grant).is_some() {
                flushed.grants.push(grant.id);
            }
        }
    }

    /// Reports up to `max` flushed grants as lost. Returns true if more are left.
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

    /// Reports the flushed grants of a lock as lost. Call this before the lock is granted.
    pub fn report_flushed_of(&mut self, database: i32, key: &[u8], now: Now) {
        if !self.flushed.databases.contains_key(&database) {
            return;
        }
        for id in self.grants.of_lock(database, key) {
            let node = self.grants.get(id);
            if node.is_some_and(|node| self.flushed.reason_of(&node.grant).is_some()) {
                self.lose(id, LossReason::Flushed, now);
            }
        }
    }

    /// Returns true while [`report_flushed`](Sessions::report_flushed) has something to do.
    #[must_use]
    pub const fn has_flushed(&self) -> bool {
        !self.flushed.grants.is_empty()
    }
}
