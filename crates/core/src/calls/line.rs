//! The line of each lock: its waiting calls and give-backs.

use super::CallId;
use crate::lock_id::LockName;
use crate::shards::Shards;
use crate::{Deadline, LockId};

/// Identifies a line. Ids are never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(u64);

impl LineId {
    pub(super) const FIRST: Self = Self(0);
    pub(super) const LAST: Self = Self(u64::MAX);

    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// The line of one lock, which exists while calls wait or give something back.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) id: LineId,
    pub(super) lock_id: LockId,
    /// The first waiting call that is not passed over.
    pub(super) first_eligible: Option<CallId>,
    /// How many calls wait.
    pub(super) waiting: usize,
    /// How many of them have a limit above 1.
    pub(super) wider: usize,
    /// See [`QueueWaits::since_sum`](super::QueueWaits::since_sum).
    pub(super) since_sum: u128,
    /// The end of the lease that the calls wait for, recorded when the lock was last opened; `None` before that.
    pub(super) lease_end: Option<Deadline>,
    /// True if the next tick has to open the lock, because there may be room or a call gives something back.
    pub(super) is_ready: bool,
    /// The calls that give something back, oldest first.
    pub(super) give_backs: Vec<CallId>,
}

/// All lines, by lock.
#[derive(Debug, Default)]
pub(super) struct Lines {
    by_lock: Shards<LockId, Box<Line>>,
    last_id: LineId,
}

impl Lines {
    pub(super) const fn is_empty(&self) -> bool {
        self.by_lock.len() == 0
    }

    pub(super) fn get(&self, database: i32, key: &[u8]) -> Option<&Line> {
        let line = self.by_lock.get(&LockName(database, key))?;
        Some(line)
    }

    pub(super) fn get_mut(&mut self, database: i32, key: &[u8]) -> Option<&mut Line> {
        let line = self.by_lock.get_mut(&LockName(database, key))?;
        Some(line)
    }

    /// The line of a lock, which is created if it does not exist.
    pub(super) fn get_or_insert(&mut self, database: i32, key: &[u8]) -> &mut Line {
        let known = self.by_lock.get_key_value(&LockName(database, key));
        let lock_id = known.map_or_else(|| LockId::new(database, key), |(id, _)| id.clone());
        self.by_lock.get_or_insert_with(lock_id.clone(), || {
            self.last_id = self.last_id.next();
            Box::new(Line {
                id: self.last_id,
                lock_id,
                first_eligible: None,
                waiting: 0,
                wider: 0,
                since_sum: 0,
                lease_end: None,
                is_ready: false,
                give_backs: Vec::new(),
            })
        })
    }

    /// Removes a line that is unused.
    pub(super) fn remove_unused(&mut self, database: i32, key: &[u8]) {
        let name = LockName(database, key);
        self.by_lock.remove_if(&name, |line| line.is_unused());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Line> {
        self.by_lock.iter().map(|(_, line)| &**line)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.by_lock.capacity()
    }
}

/// The number of lines of each length, from one call up.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Lengths(Vec<usize>);

impl Lengths {
    /// Records that a line has grown to this length.
    pub(super) fn grown(&mut self, to: usize) {
        if to > self.0.len() {
            self.0.push(0);
        }
        self.0[to - 1] += 1;
        if to > 1 {
            self.0[to - 2] -= 1;
        }
    }

    /// Records that a line has shrunk from this length.
    pub(super) fn shrunk(&mut self, from: usize) {
        self.0[from - 1] -= 1;
        if from > 1 {
            self.0[from - 2] += 1;
        }
        if self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// The length of the longest line.
    pub(super) const fn longest(&self) -> usize {
        self.0.len()
    }
}

impl Line {
    /// Returns true if the line has neither waiting calls nor give-backs.
    pub(super) const fn is_unused(&self) -> bool {
        self.waiting == 0 && self.give_backs.is_empty()
    }
}
