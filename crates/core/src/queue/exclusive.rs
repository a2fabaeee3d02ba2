//! Which calls of a queue want the lock alone: who comes after such a call waits for all holders to go.

use std::collections::BTreeSet;

use super::WaiterId;
use crate::Limit;

/// The calls with limit 1 of a queue, of each owner the first call only: the others are judged with it.
///
/// While no call has a wider limit the head of the queue is all that need be known. So a call with limit 1
/// is noted only when a wider one is in the queue: those that are not noted have no wider call before
/// them, then or ever.
#[derive(Debug, Default)]
pub(super) struct ExclusiveCalls {
    /// How many calls have a wider limit.
    wider: usize,
    noted: BTreeSet<WaiterId>,
}

impl ExclusiveCalls {
    /// A call has joined the queue.
    pub(super) fn joined(&mut self, id: WaiterId, limit: Limit, is_first_of_owner: bool) {
        if limit > Limit::ONE {
            self.wider += 1;
        } else if is_first_of_owner {
            self.became_first(id, limit);
        }
    }

    /// A call is now the first of its owner.
    pub(super) fn became_first(&mut self, id: WaiterId, limit: Limit) {
        if self.wider > 0 && limit == Limit::ONE {
            self.noted.insert(id);
        }
    }

    /// A call has left the queue.
    pub(super) fn left(&mut self, id: WaiterId, limit: Limit) {
        if limit > Limit::ONE {
            self.wider -= 1;
        } else if !self.noted.is_empty() {
            self.noted.remove(&id);
        }
    }

    /// The first of them, where the head of the queue has a wider limit.
    pub(super) fn first_after_wider_head(&self) -> Option<WaiterId> {
        self.noted.first().copied()
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn wider(&self) -> usize {
        self.wider
    }
}
