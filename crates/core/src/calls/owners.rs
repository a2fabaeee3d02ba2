//! The waiting calls of each owner, line by line.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::ops::RangeInclusive;

use foldhash::fast::RandomState;

use super::{Call, CallId, LineId};
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

/// The waiting calls in the order of owners, lines and joining. An owner is known by a hash of its name; a call
/// tells whether the name is the same.
#[derive(Debug, Default)]
pub(super) struct Owners {
    hasher: RandomState,
    calls: BTreeSet<(u64, LineId, CallId)>,
}

impl Owners {
    pub(super) fn insert(&mut self, owner: &[u8], line: LineId, id: CallId) {
        self.calls.insert((self.hasher.hash_one(owner), line, id));
    }

    pub(super) fn remove(&mut self, owner: &[u8], line: LineId, id: CallId) {
        self.calls.remove(&(self.hasher.hash_one(owner), line, id));
    }

    /// The calls of an owner in these lines.
    pub(super) fn calls<A>(
        &self,
        table: &Shards<CallId, Box<Call<A>>>,
        owner: &[u8],
        lines: RangeInclusive<LineId>,
    ) -> impl Iterator<Item = (LineId, CallId)> {
        let hash = self.hasher.hash_one(owner);
        let (first, last) = (*lines.start(), *lines.end());
        let calls = (hash, first, CallId::FIRST)..=(hash, last, CallId::LAST);
        let calls = self.calls.range(calls).filter(move |(_, _, id)| {
            let call = table.get(id);
            call.is_some_and(|call| call.waiter.owner.as_owner().bytes() == owner)
        });
        calls.map(|(_, line, id)| (*line, *id))
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }
}
