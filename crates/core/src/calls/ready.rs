//! Which locks are to be looked at, because there may be room for those who wait.
//!
//! * A **ready** lock is looked at in the next tick: an event may have made room, or a call gives something
//!   back. A lock that was looked at meanwhile stays in the order, and is skipped there.
//! * A lock **whose lease ends** becomes ready then. The end is remembered as it was last seen. A renewal that moves
//!   the end does not update the remembered one: the lock is looked at when the remembered end has passed.
//! * A module gets no event for a changed expiry, so every lock that somebody waits for is **checked in turn**.

use std::collections::{BTreeSet, VecDeque};

use super::line::Line;
use super::{Calls, LineId};
use crate::{Deadline, LockId};

impl<A> Calls<A> {
    /// Notes that the waiters of this lock may have room; false when nobody waits.
    pub fn make_ready(&mut self, database: i32, key: &[u8]) -> bool {
        match self.lines.get_mut(database, key) {
            Some(line) if line.waiting > 0 => {
                line.make_ready(&mut self.ready_keys);
                true
            }
            _ => false,
        }
    }

    /// As [`Calls::make_ready`], for every lock that somebody waits for. The cost does not depend on their number,
    /// because each becomes ready when its turn comes.
    pub fn make_all_ready(&mut self) -> bool {
        self.all_ready = self.turns.len();
        let Some((last, _)) = self.turns.last_key_value() else {
            return false;
        };
        // This round then includes every lock, so that many turns visit each of them once.
        self.round_end = *last;
        true
    }

    /// As [`Calls::make_ready`], for the locks whose remembered end has passed, at most `max` of them.
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

    /// How many entries the order of the ready locks has.
    #[must_use]
    pub fn ready_len(&self) -> usize {
        self.ready_keys.len() + self.all_ready
    }

    /// Takes the first entry from that order; `None` when it is no longer ready.
    pub fn take_ready(&mut self) -> Option<LockId> {
        let Some(lock_id) = self.ready_keys.pop_front() else {
            self.all_ready = self.all_ready.checked_sub(1)?;
            return self.next_turn();
        };
        let line = self.lines.get_mut(lock_id.database, &lock_id.key)?;
        std::mem::take(&mut line.is_ready).then_some(lock_id)
    }

    /// The lock is looked at now. A lock with give-backs stays ready.
    pub fn looked_at(&mut self, database: i32, key: &[u8]) {
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

    /// Records that the lease ends at `end` at the latest; true when the remembered end was later.
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

    /// The earliest end of a lease that somebody waits for, by the wall clock in milliseconds.
    #[must_use]
    pub fn next_lease_end(&self) -> Option<u64> {
        self.lease_ends.first().map(|(end, _)| *end)
    }

    /// How many locks somebody waits for.
    #[must_use]
    pub fn locks(&self) -> usize {
        self.turns.len()
    }

    /// The next lock to check in turn. A lock that somebody began to wait for in this round has its turn in the next
    /// one.
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
    /// Notes that the lock is to be looked at.
    pub(super) fn make_ready(&mut self, ready_keys: &mut VecDeque<LockId>) {
        if !std::mem::replace(&mut self.is_ready, true) {
            ready_keys.push_back(self.lock_id.clone());
        }
    }

    /// Changes the remembered end of the lease.
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
