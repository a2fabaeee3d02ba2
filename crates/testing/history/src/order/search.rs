//! The search for an order.
//!
//! Time is gone through once, and all candidates that are possible so far are kept, not one of them:
//! when a call ends, each candidate is led on by the calls under way, in every order, until that call is
//! done in it. A candidate in which it cannot be done is dropped, and when none is left there is no
//! order. So a wrong history costs no more than a right one, where a search in depth goes back
//! through all that came before, and the call at which it is found out ends the shortest history that
//! is wrong. (Gavin Lowe calls the idea just-in-time linearization.) `agreement.rs` compares it with a
//! published checker of the other kind.

use super::candidate::Candidate;
use super::lock_state::State;
use super::operation::{Need, Operation, What};
use super::states::{Branch, Branches, Kinds, Set};
use super::times::Scene;
use crate::Moment;
use crate::story::Story;

/// How many steps are made for one lock before the search is given up.
const MOST_STEPS: usize = 4_000_000;

/// The result of a search.
pub(super) enum Verdict {
    /// There is an order.
    Explained,
    /// There is none for what had ended by the end of this operation. The lock may have been in these
    /// states before.
    NoOrder { stuck: usize, states: Vec<String> },
    /// The search was given up.
    Undecided,
}

pub(super) fn search(operations: &[Operation<'_>], story: &Story<'_>) -> Verdict {
    let mut events: Vec<(Moment, bool, usize)> = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        events.push((operation.sent, false, index));
        events.push((operation.ended, true, index));
    }
    events.sort_unstable();
    let mut search = Search {
        operations,
        under_way: Vec::new(),
        kinds: Kinds::default(),
        branches: Branches::default(),
        steps: 0,
    };
    let start = Branch {
        candidate: Candidate::new(),
        done: 0,
    };
    search.branches.add(start, search.kinds);
    for (now, ends, index) in events {
        let scene = Scene::at(now, story);
        if !ends {
            if search.begin(index, scene).is_none() {
                return Verdict::Undecided;
            }
            continue;
        }
        let before = search.end(index, scene);
        if search.steps > MOST_STEPS {
            return Verdict::Undecided;
        }
        if search.branches.is_empty() {
            let mut states: Vec<_> = before.iter().map(ToString::to_string).collect();
            states.sort();
            return Verdict::NoOrder {
                stuck: index,
                states,
            };
        }
    }
    Verdict::Explained
}

struct Search<'s, 'a> {
    operations: &'s [Operation<'a>],
    /// Each at the place of its bit.
    under_way: Vec<Option<usize>>,
    kinds: Kinds,
    branches: Branches<'a>,
    steps: usize,
}

impl<'a> Search<'_, 'a> {
    /// An operation is under way from now on; none where too many are.
    fn begin(&mut self, index: usize, scene: Scene<'_>) -> Option<()> {
        let need = self.operations[index].need();
        if need == Need::Debt {
            // The candidates in which there is one know it.
            return Some(());
        }
        let place = match self.under_way.iter().position(Option::is_none) {
            Some(place) => place,
            None if self.under_way.len() < Set::BITS as usize => {
                self.under_way.push(None);
                self.under_way.len() - 1
            }
            None => return None,
        };
        self.under_way[place] = Some(index);
        self.kinds.add(1 << place, need);
        if need == Need::Look {
            for mut branch in std::mem::take(&mut self.branches).into_iter() {
                self.look(&mut branch, place, index, scene);
                self.branches.add(branch, self.kinds);
            }
        }
        Some(())
    }

    /// An operation must be done by now. Returns what the lock may have been before.
    fn end(&mut self, index: usize, scene: Scene<'_>) -> Vec<State<'a>> {
        let mut before = Vec::new();
        let mut under_way = self.under_way.iter();
        let place = under_way.position(|operation| *operation == Some(index));
        let bit = place.map_or(0, |place| 1 << place);
        let mut open = Vec::new();
        let mut seen = Branches::default();
        let mut ended: Vec<Branch<'a>> = Vec::new();
        for branch in std::mem::take(&mut self.branches).into_iter() {
            if !self.is_done(&branch, index, bit) {
                before.push(branch.candidate.state.clone());
                open.extend(seen.add(branch.clone(), self.kinds));
            }
            if self.need_not(&branch, index, bit) {
                ended.push(branch);
            }
        }
        while let Some(branch) = open.pop() {
            if self.steps > MOST_STEPS {
                break;
            }
            for next in self.successors(&branch, scene) {
                if self.is_done(&next, index, bit) {
                    ended.push(next);
                } else {
                    open.extend(seen.add(next, self.kinds));
                }
            }
        }
        if let Some(place) = place {
            self.under_way[place] = None;
        }
        self.kinds.remove(bit);
        for mut branch in ended {
            branch.done &= !bit;
            self.branches.add(branch, self.kinds);
        }
        before
    }

    fn is_done(&self, branch: &Branch<'a>, index: usize, bit: Set) -> bool {
        match self.operations[index].what {
            What::GiveBack(call) => !branch.candidate.state.owes(call),
            _ => branch.done & bit != 0,
        }
    }

    /// An operation is done, or need not be.
    fn need_not(&self, branch: &Branch<'a>, index: usize, bit: Set) -> bool {
        self.is_done(branch, index, bit) || self.operations[index].need() == Need::May
    }

    /// What may be next: the lock becomes free by itself, something is given back, or one more operation
    /// is done.
    fn successors(&mut self, branch: &Branch<'a>, scene: Scene<'_>) -> Vec<Branch<'a>> {
        let by_itself = branch.candidate.lapses(scene).into_iter();
        let by_itself = by_itself.chain(branch.candidate.give_backs(scene));
        let mut next: Vec<_> = by_itself
            .map(|candidate| (candidate, branch.done))
            .collect();
        for (place, index) in self.under_way.iter().enumerate() {
            let Some(index) = *index else { continue };
            let operation = &self.operations[index];
            let bit = 1 << place;
            // A server may go back more than once.
            if branch.done & bit == 0 || matches!(operation.what, What::Loss(_)) {
                self.steps += 1;
                let candidates = branch.candidate.after(operation, index, scene).into_iter();
                next.extend(candidates.map(|candidate| (candidate, branch.done | bit)));
            }
        }
        let mut branches = Vec::new();
        for (candidate, done) in next {
            let mut branch = Branch { candidate, done };
            for place in 0..self.under_way.len() {
                if let Some(index) = self.under_way[place] {
                    self.look(&mut branch, place, index, scene);
                }
            }
            branches.push(branch);
        }
        branches
    }

    /// An operation that changes nothing is done as soon as it can be: nothing is lost by that.
    fn look(&mut self, branch: &mut Branch<'a>, place: usize, index: usize, scene: Scene<'_>) {
        let (operation, bit) = (&self.operations[index], 1 << place);
        if operation.need() != Need::Look || branch.done & bit != 0 {
            return;
        }
        self.steps += 1;
        let mut candidates = branch.candidate.after(operation, index, scene).into_iter();
        if candidates.any(|candidate| candidate == branch.candidate) {
            branch.done |= bit;
        }
    }
}
