//! The waiting calls of each owner, line by line.

use std::collections::BTreeSet;

use super::{CallId, LineId};
use crate::OwnerBuf;
use crate::shards::Shards;

/// Which locks an owner waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerWaits {
    /// No lock.
    None,
    /// One lock, with its line and the owner's first call there.
    One(LineId, CallId),
    /// Several locks.
    Several,
}

/// The owners with waiting calls, in all databases.
#[derive(Debug, Default)]
pub(super) struct Owners(Shards<OwnerBuf, OwnerCalls>);

/// A call, its line, and whether it is passed over there.
type Entry = (LineId, bool, CallId);

/// The waiting calls of an owner, line by line, in the order of joining. In each line the calls that are passed over
/// come last.
///
/// Nearly every owner has only one call, for which a set would take ten times as much memory.
#[derive(Debug, PartialEq, Eq)]
enum OwnerCalls {
    One(Entry),
    #[expect(
        clippy::box_collection,
        reason = "a set by itself makes every entry larger"
    )]
    Several(Box<BTreeSet<Entry>>),
}

impl Owners {
    pub(super) fn insert(&mut self, owner: &OwnerBuf, entry: Entry) {
        match self
            .0
            .get_or_insert_with(owner.clone(), || OwnerCalls::One(entry))
        {
            OwnerCalls::Several(calls) => drop(calls.insert(entry)),
            &mut OwnerCalls::One(only) if only == entry => {}
            waits @ &mut OwnerCalls::One(only) => {
                *waits = OwnerCalls::Several(Box::new(BTreeSet::from([only, entry])));
            }
        }
    }

    pub(super) fn remove(&mut self, owner: &OwnerBuf, entry: Entry) {
        match self.0.get_mut(owner) {
            Some(waits @ OwnerCalls::Several(_)) => waits.remove(entry),
            _ => drop(self.0.remove(owner)),
        }
    }

    /// The first call of an owner in a line.
    pub(super) fn first_of(&self, owner: &[u8], line: LineId) -> Option<CallId> {
        self.0.get(owner)?.first_of(line)
    }

    /// The first call of an owner in a line that is not passed over.
    pub(super) fn first_eligible_of(&self, owner: &[u8], line: LineId) -> Option<CallId> {
        self.0.get(owner)?.first_among(line, false)
    }

    /// The calls of an owner in a line.
    pub(super) fn all_of(&self, owner: &[u8], line: LineId) -> impl Iterator<Item = CallId> {
        let waits = self.0.get(owner).into_iter();
        waits.flat_map(move |waits| waits.all_of(line))
    }

    pub(super) fn waits_of(&self, owner: &[u8]) -> OwnerWaits {
        let Some(waits) = self.0.get(owner) else {
            return OwnerWaits::None;
        };
        let Some(line) = waits.first_line(LineId::FIRST) else {
            return OwnerWaits::None;
        };
        match waits.first_of(line) {
            Some(first) if waits.first_line(line.next()).is_none() => OwnerWaits::One(line, first),
            _ => OwnerWaits::Several,
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

impl OwnerCalls {
    /// The first line with a call, from this line on.
    fn first_line(&self, from: LineId) -> Option<LineId> {
        match self {
            Self::One((line, _, _)) => (*line >= from).then_some(*line),
            Self::Several(calls) => {
                let (line, _, _) = calls.range((from, false, CallId::FIRST)..).next()?;
                Some(*line)
            }
        }
    }

    /// The first call in this line.
    fn first_of(&self, line: LineId) -> Option<CallId> {
        match self {
            Self::One((only, _, id)) => (*only == line).then_some(*id),
            Self::Several(_) => {
                let of_both =
                    [false, true].map(|is_passed_over| self.first_among(line, is_passed_over));
                of_both.into_iter().flatten().min()
            }
        }
    }

    /// The first call in this line that is passed over, or that is not.
    fn first_among(&self, line: LineId, is_passed_over: bool) -> Option<CallId> {
        match self {
            Self::One((only, passed, id)) => {
                ((*only, *passed) == (line, is_passed_over)).then_some(*id)
            }
            Self::Several(calls) => {
                let first = (line, is_passed_over, CallId::FIRST);
                let last = (line, is_passed_over, CallId::LAST);
                calls.range(first..=last).next().map(|(_, _, id)| *id)
            }
        }
    }

    fn all_of(&self, line: LineId) -> impl Iterator<Item = CallId> {
        let (only, several) = match self {
            Self::One(only) => (Some(only), None),
            Self::Several(calls) => {
                let all = (line, false, CallId::FIRST)..=(line, true, CallId::LAST);
                (None, Some(calls.range(all)))
            }
        };
        let calls = only.into_iter().chain(several.into_iter().flatten());
        calls
            .filter(move |(of, _, _)| *of == line)
            .map(|(_, _, id)| *id)
    }

    #[cold]
    fn remove(&mut self, entry: Entry) {
        if let Self::Several(calls) = self {
            calls.remove(&entry);
            if let (1, Some(only)) = (calls.len(), calls.first().copied()) {
                *self = Self::One(only);
            }
        }
    }
}
