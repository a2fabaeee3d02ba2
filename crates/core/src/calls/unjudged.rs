//! Calls that may be re-entries, because they were not judged together with their owner's grant.
//!
//! An owner's waiting calls are judged together with its grant. This leaves out calls that were passed over at that
//! time, and calls for which there was no time. They are judged before the next in line, when the lock is served again.
//! The holder of an exclusive lock has its calls found by name; a shared lock may have too many holders for that.

use super::{CallId, Calls, of_line};
use crate::Holders;

/// The most calls that one search looks at.
const MAX_LOOKS: usize = 1024;

impl<A> Calls<A> {
    /// Remembers that this owner, which was granted the lock last, may have calls left that are re-entries. They come
    /// before the next in line when the lock is served again.
    pub fn judge_later(&mut self, database: i32, key: &[u8], owner: &[u8]) {
        if let Some(line) = self.lines.get(database, key)
            && let Some(id) = self.owners.first_eligible_of(owner, line.id)
        {
            self.unjudged.insert((line.id, id));
        }
    }

    /// The first call of an owner that holds the lock, if one of its calls was not judged with its grant. The calls
    /// of others are forgotten on the way: they come in their turn.
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
        // The search continues at the next look.
        self.make_ready(database, key);
        None
    }
}
