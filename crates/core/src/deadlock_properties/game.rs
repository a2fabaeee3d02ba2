//! Locks, their lines, and all possible continuations.

use std::collections::HashSet;

/// A limit that allows every number of holders.
pub(super) const NONE: usize = usize::MAX;

/// A holder, or a call in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Party {
    pub(super) owner: usize,
    pub(super) limit: usize,
}

/// A lock: its holders, and its calls in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Lock {
    pub(super) holders: Vec<Party>,
    pub(super) line: Vec<Party>,
}

/// The result of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Granted,
    NotAlone,
    Busy,
}

impl Lock {
    pub(super) fn is_held_by(&self, owner: usize) -> bool {
        self.holders.iter().any(|holder| holder.owner == owner)
    }

    pub(super) fn is_waited_for_by(&self, owner: usize) -> bool {
        self.line.iter().any(|call| call.owner == owner)
    }

    fn has_room(&self, limit: usize) -> bool {
        let count = self.holders.len() + 1;
        limit >= count && self.holders.iter().all(|holder| holder.limit >= count)
    }

    fn judge(&mut self, call: Party) -> Verdict {
        let (count, has_room) = (self.holders.len(), self.has_room(call.limit));
        let mut holders = self.holders.iter_mut();
        match holders.find(|holder| holder.owner == call.owner) {
            Some(holder) if call.limit >= holder.limit => Verdict::Granted,
            Some(holder) if call.limit >= count => {
                holder.limit = call.limit;
                Verdict::Granted
            }
            Some(_) => Verdict::NotAlone,
            None if has_room => {
                self.holders.push(call);
                Verdict::Granted
            }
            None => Verdict::Busy,
        }
    }

    /// A new call: it stands behind those in line, unless its owner holds the lock.
    pub(super) fn acquire(&mut self, call: Party) -> Verdict {
        if self.line.is_empty() || self.is_held_by(call.owner) {
            self.judge(call)
        } else {
            Verdict::Busy
        }
    }

    pub(super) fn release(&mut self, owner: usize) {
        self.holders.retain(|holder| holder.owner != owner);
    }

    /// Judges the calls of holders who cannot be passed over, then those at the front who have room.
    /// Returns the places in line that were left, in that order.
    pub(super) fn serve(&mut self) -> Vec<usize> {
        let mut left = Vec::new();
        let mut just_granted = None;
        loop {
            let alone = match self.holders[..] {
                [holder] if holder.limit == 1 => Some(holder.owner),
                _ => None,
            };
            let of_owner = |owner: Option<usize>| {
                let mut line = self.line.iter();
                owner.and_then(|owner| line.position(|call| call.owner == owner))
            };
            let next = of_owner(just_granted).or_else(|| match alone {
                Some(_) => of_owner(alone),
                None => (!self.line.is_empty()).then_some(0),
            });
            let Some(place) = next else { return left };
            let call = self.line[place];
            match self.judge(call) {
                Verdict::Busy => return left,
                Verdict::NotAlone => {}
                Verdict::Granted => just_granted = Some(call.owner),
            }
            self.line.remove(place);
            left.push(place);
        }
    }
}

/// Returns true if the caller, which waits for this lock, gets it in some continuation. Every other owner may release
/// or widen what it holds, unless it waits for exactly one lock, because then its task can do nothing. (An owner that
/// waits for several locks has several tasks, so it may do everything.)
pub(super) fn can_get_in(locks: &[Lock], caller: usize, lock: usize) -> bool {
    let waits_for = |owner: usize| {
        let locks = locks.iter().filter(|lock| lock.is_waited_for_by(owner));
        locks.count()
    };
    let several = |owner: usize| waits_for(owner) > 1;
    let mut start = locks.to_vec();
    for lock in &mut start {
        lock.serve();
    }
    let mut reached = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(state) = open.pop() {
        if state[lock].is_held_by(caller) {
            return true;
        }
        let is_stuck = |owner: usize| state.iter().any(|lock| lock.is_waited_for_by(owner));
        for (at, held) in state.iter().enumerate() {
            for (place, holder) in held.holders.iter().enumerate() {
                let owner = holder.owner;
                if owner == caller || (is_stuck(owner) && !several(owner)) {
                    continue;
                }
                let mut released = state.clone();
                released[at].release(owner);
                released[at].serve();
                let mut widened = state.clone();
                widened[at].holders[place].limit = NONE;
                widened[at].serve();
                for next in [released, widened] {
                    if reached.insert(next.clone()) {
                        open.push(next);
                    }
                }
            }
        }
    }
    false
}
