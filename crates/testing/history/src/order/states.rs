//! The candidates that are still possible, each with the operations that have led to it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::candidate::Candidate;
use super::lock_state::State;
use super::operation::Need;
use super::times::Times;

/// Operations that are under way, as bits.
pub(super) type Set = u128;

/// Which of the operations under way are of what kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kinds {
    looks: Set,
    mays: Set,
}

impl Kinds {
    /// An operation of this kind begins.
    pub(super) fn add(&mut self, bit: Set, need: Need) {
        match need {
            Need::Look => self.looks |= bit,
            Need::May => self.mays |= bit,
            Need::Must | Need::Debt => {}
        }
    }

    /// An operation is over.
    pub(super) fn remove(&mut self, bit: Set) {
        self.looks &= !bit;
        self.mays &= !bit;
    }

    /// Whether what can follow upon `other` can follow upon `done` too: more was looked at, and
    /// less was done that need not have been.
    fn covers(self, done: Set, other: Set) -> bool {
        let musts = !(self.looks | self.mays);
        (done ^ other) & musts == 0
            && other & self.looks & !done == 0
            && done & self.mays & !other == 0
    }
}

/// A candidate, and which of the operations under way have been done in it.
#[derive(Clone, Debug)]
pub(super) struct Branch<'a> {
    pub(super) candidate: Candidate<'a>,
    pub(super) done: Set,
}

/// Branches, without those that others make needless.
#[derive(Default)]
pub(super) struct Branches<'a> {
    by_state: HashMap<State<'a>, Vec<(Set, Times)>>,
}

impl<'a> Branches<'a> {
    /// Adds a branch, and returns it where it adds something. Of two branches that differ in
    /// nothing but their times, one is made that leaves room for both.
    pub(super) fn add(&mut self, branch: Branch<'a>, kinds: Kinds) -> Option<Branch<'a>> {
        let Branch { candidate, done } = branch;
        let (state, times) = (candidate.state, candidate.times);
        let branch = |state: &State<'a>, done, times: &Times| {
            let candidate = Candidate {
                state: state.clone(),
                times: times.clone(),
            };
            Some(Branch { candidate, done })
        };
        match self.by_state.entry(state) {
            Entry::Vacant(entry) => {
                let branch = branch(entry.key(), done, &times);
                entry.insert(vec![(done, times)]);
                branch
            }
            Entry::Occupied(mut entry) => {
                let state = entry.key().clone();
                let known = entry.get_mut();
                if let Some((covering, room)) = known
                    .iter_mut()
                    .find(|(other, _)| kinds.covers(*other, done))
                {
                    let wider = room.or(&times);
                    if wider == *room {
                        return None;
                    }
                    *room = wider;
                    return branch(&state, *covering, room);
                }
                let mut wider = times;
                known.retain(|(other, room)| {
                    let covered = kinds.covers(done, *other);
                    if covered {
                        wider = wider.or(room);
                    }
                    !covered
                });
                let branch = branch(&state, done, &wider);
                known.push((done, wider));
                branch
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_state.is_empty()
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = Branch<'a>> {
        self.by_state.into_iter().flat_map(|(state, branches)| {
            branches.into_iter().map(move |(done, times)| Branch {
                candidate: Candidate {
                    state: state.clone(),
                    times,
                },
                done,
            })
        })
    }
}
