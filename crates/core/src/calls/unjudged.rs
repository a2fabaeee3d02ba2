//! Calls that may be re-entries but were not judged together with their owner's grant.
//!
//! An owner's waiting calls are judged together with its grant, except calls that were passed over then and calls for
//! which the slice of time was too short. They are judged before the next call in line when the lock is served again.
//!
//! For an exclusive lock they could be found by the name of the holder. A shared lock may have too many holders for
//! that.

use super::{CallId, Calls, of_line};
use crate::Holders;

/// The most calls that one search checks.
const MAX_LOOKS: usize = 1024;

impl<A> Calls<A> {
    /// Records that the owner that was granted the lock last may have calls left, which are re-entries. They come
    /// before the next call in line when the lock is served again.
    pub fn judge_later(&mut self, database: i32, key: &[u8], owner: &[u8]) {
        if let Some(line) = self.lines.get(database, key)
            && let Some(id) = self.owners.first_eligible_of(owner, line.id)
        {
            self.unjudged.insert((line.id, id));
        }
    }

    /// The first call of an owner that holds the lock, among the calls that were not judged with their owner's grant.
    /// Drops the calls of owners that do not hold the lock, because their turn comes in the line.
    pub(crate) fn take_unjudged(
        &mut self,
        (database, key): (i32, &[u8]),
        holders: Option<&Holders<'_>>,
    ) -> Option<CallId> {
        if self.unjudged.is_empty() {
            return None;
        }
        let line = self.lines.get(database, key)?.id;
        for _ in 0..MAX_LOOKS {
            let id = of_line(&self.unjudged, line).next()?;
            let owner = &self.table.get(&id)?.waiter.owner;
            if holders.is_some_and(|holders| holders.find(owner.as_owner()).is_some()) {
                return self
                    .owners
                    .first_eligible_of(owner.as_owner().bytes(), line);
            }
            self.unjudged.remove(&(line, id));
        }
        // The search continues in the next tick.
        self.make_ready(database, key);
        None
    }
}
