//! The waiting calls of each owner, line by line.

use std::collections::BTreeSet;

use super::{CallId, LineId};
use crate::OwnerBuf;
use crate::shards::Shards;

/// What an owner waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerWaits {
    /// Nothing.
    None,
    /// One lock: the line, and the owner's first call there.
    One(LineId, CallId),
    /// Several locks.
    Several,
}

/// The owners that wait, over all databases.
#[derive(Debug, Default)]
pub(super) struct Owners(Shards<OwnerBuf, Waits>);

/// The waiting calls of an owner, in the order of lines and of joining. Nearly every owner has one, and a set of one
/// takes ten times as much memory.
#[derive(Debug, PartialEq, Eq)]
enum Waits {
    One(LineId, CallId),
    Several(Box<BTreeSet<(LineId, CallId)>>),
}

impl Owners {
    pub(super) fn insert(&mut self, owner: &OwnerBuf, line: LineId, id: CallId) {
        let new = || Waits::One(line, id);
        match self.0.get_or_insert_with(owner.clone(), new) {
            Waits::Several(calls) => drop(calls.insert((line, id))),
            Waits::One(_, only) if *only == id => {}
            waits @ &mut Waits::One(only_line, only) => {
                let calls = BTreeSet::from([(only_line, only), (line, id)]);
                *waits = Waits::Several(Box::new(calls));
            }
        }
    }

    pub(super) fn remove(&mut self, owner: &OwnerBuf, line: LineId, id: CallId) {
        match self.0.get_mut(owner) {
            Some(waits @ Waits::Several(_)) => waits.remove(line, id),
            _ => drop(self.0.remove(owner)),
        }
    }

    /// The first call of an owner in a line.
    pub(super) fn first_of(&self, owner: &[u8], line: LineId) -> Option<CallId> {
        let (found, id) = self.0.get(owner)?.first_from(line)?;
        (found == line).then_some(id)
    }

    pub(super) fn waits_of(&self, owner: &[u8]) -> OwnerWaits {
        let waits = self.0.get(owner);
        let first_from = |line| waits.and_then(|waits| waits.first_from(line));
        match first_from(LineId::FIRST) {
            None => OwnerWaits::None,
            Some((line, _)) if first_from(line.next()).is_some() => OwnerWaits::Several,
            Some((line, first)) => OwnerWaits::One(line, first),
        }
    }

    #[cfg(any(test, fuzzing))]
    pub(super) const fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl Waits {
    /// The first call in this line, or in a later one.
    fn first_from(&self, line: LineId) -> Option<(LineId, CallId)> {
        match self {
            Self::One(only_line, only) => (*only_line >= line).then_some((*only_line, *only)),
            Self::Several(calls) => calls.range((line, CallId::FIRST)..).next().copied(),
        }
    }

    #[cold]
    fn remove(&mut self, line: LineId, id: CallId) {
        if let Self::Several(calls) = self {
            calls.remove(&(line, id));
            if let (1, Some((line, id))) = (calls.len(), calls.first().copied()) {
                *self = Self::One(line, id);
            }
        }
    }
}
