//! Which locks the next tick has to open, because there may be room for their waiters.
//!
//! * The next tick opens each **ready** lock: an event may have made room, or a call gives something back. A lock that was
//!   opened earlier stays in the order, and the tick skips it.
//! * A lock **whose lease ends** becomes ready at that time. The end is recorded when the lock is opened. A renewal that
//!   moves the end later does not update the record, so the lock is then opened once in vain.
//! * All locks with waiting calls are **checked in turn**, because a module gets no event when an administrator changes an
//!   expiry.

use std::collections::{BTreeSet, VecDeque};

use super::line::Line;
use super::{Calls, LineId};
use crate::{Deadline, LockId};

impl<A> Calls<A> {
    /// Marks a lock as ready. Returns false if no call waits for it.
    pub fn make_ready(&mut self, database: i32, key: &[u8]) -> bool {
        match self.lines.get_mut(database, key) {
            Some(line) if line.waiting > 0 => {
                line.make_ready(&mut self.ready_keys);
                true
            }
            _ => false,
        }
    }

    /// Like [`Calls::make_ready`], but for all locks. The cost does not depend on their number, because they are taken
    /// in the order of their turns.
    pub fn make_all_ready(&mut self) -> bool {
        self.all_ready = self.turns.len();
        let Some((last, _)) = self.turns.last_key_value() else {
            return false;
        };
        // This round then includes every lock, and this many turns visit each of them once.
        self.round_end = *last;
        true
    }

    /// Like [`Calls::make_ready`], but for at most `max` locks whose recorded end has passed.
    pub fn make_ended_ready(&mut self, now_ms: u64, max: usize) {
        for _ in 0..max {
            let first = self.lease_ends.first().filter(|(end, _)| *end < now_ms);
            let Some(lock_id) = first.and_then(|(_, line)| self.turns.get(line).cloned()) else {
                return;
            };
            let LockId { database, key } = &lock_id;
            if let Some(line) = self.lines.get_mut(*database, key) {
                line.set_lease_end(&mut self.lease_ends, Some(Deadline::Never));
            }
            self.make_ready(*database, key);
        }
    }

    /// The length of the order of ready locks. It includes locks that are no longer ready.
    #[must_use]
    pub fn ready_len(&self) -> usize {
        self.ready_keys.len() + self.all_ready
    }

    /// Takes the first lock from the order of ready locks; `None` if that lock is no longer ready.
    pub fn take_ready(&mut self) -> Option<LockId> {
        let Some(lock_id) = self.ready_keys.pop_front() else {
            self.all_ready = self.all_ready.checked_sub(1)?;
            return self.next_turn();
        };
        let line = self.lines.get_mut(lock_id.database, &lock_id.key)?;
        std::mem::take(&mut line.is_ready).then_some(lock_id)
    }

    /// Clears the ready mark of a lock, unless it has give-backs. Call this when the lock is opened to serve it.
    pub fn clear_ready(&mut self, database: i32, key: &[u8]) {
        if let Some(line) = self.lines.get_mut(database, key) {
            line.is_ready = !line.give_backs.is_empty();
        }
    }

    /// Records when the lease that the calls in this line wait for ends.
    pub fn set_lease_end(&mut self, database: i32, key: &[u8], end: Deadline) {
        if let Some(line) = self.lines.get_mut(database, key)
            && line.waiting > 0
            && line.lease_end != Some(end)
        {
            line.set_lease_end(&mut self.lease_ends, Some(end));
        }
    }

    /// Records that the lease ends at `end` at the latest. Returns true if the recorded end was later.
    pub fn cut_lease_end(&mut self, database: i32, key: &[u8], end: Deadline) -> bool {
        let before = self
            .lines
            .get(database, key)
            .and_then(|line| line.lease_end);
        let is_sooner = before.is_some_and(|before| end < before);
        if is_sooner {
            self.set_lease_end(database, key, end);
        }
        is_sooner
    }

    /// The earliest recorded end of a lease, in milliseconds of the wall clock.
    #[must_use]
    pub fn next_lease_end(&self) -> Option<u64> {
        self.lease_ends.first().map(|(end, _)| *end)
    }

    /// The number of locks with waiting calls.
    #[must_use]
    pub fn locks(&self) -> usize {
        self.turns.len()
    }

    /// The next lock to check in turn. A lock that was added in this round has its turn in the next round.
    pub fn next_turn(&mut self) -> Option<LockId> {
        let mut rest = self.turns.range(self.last_turn.next()..);
        let next = rest.next().filter(|(line, _)| **line <= self.round_end);
        let (line, lock_id) = if let Some(next) = next {
            next
        } else {
            self.round_end = *self.turns.last_key_value()?.0;
            self.turns.first_key_value()?
        };
        self.last_turn = *line;
        Some(lock_id.clone())
    }
}

impl Line {
    /// Marks the lock as ready.
    pub(super) fn make_ready(&mut self, ready_keys: &mut VecDeque<LockId>) {
        if !std::mem::replace(&mut self.is_ready, true) {
            ready_keys.push_back(self.lock_id.clone());
        }
    }

    /// Changes the recorded end of the lease.
    pub(super) fn set_lease_end(
        &mut self,
        lease_ends: &mut BTreeSet<(u64, LineId)>,
        end: Option<Deadline>,
    ) {
        if let Some(Deadline::At(before)) = self.lease_end {
            lease_ends.remove(&(before, self.id));
        }
        if let Some(Deadline::At(end)) = end {
            lease_ends.insert((end, self.id));
        }
        self.lease_end = end;
    }
}
