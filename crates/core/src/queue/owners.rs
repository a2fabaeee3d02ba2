//! Who waits for what: each owner's calls, by the queue that they are in.

use std::collections::hash_map::Entry;

use super::list::List;
use super::{QueueId, WaiterId};
use crate::map::shrink_if_sparse;
use crate::{Map, OwnerBuf};

/// What an owner waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerWaits {
    /// Nothing.
    None,
    /// One lock: the queue, and the owner's first call there.
    One(QueueId, WaiterId),
    /// Several locks.
    Several,
}

/// The owners that wait, over all databases.
#[derive(Debug, Default)]
pub(super) struct Owners(Map<OwnerBuf, Calls>);

/// The calls of an owner. Nearly all wait for one lock only.
#[derive(Debug)]
enum Calls {
    One(QueueId, List),
    Several(Map<QueueId, List>),
}

impl Owners {
    pub(super) fn waits_of(&self, owner: &[u8]) -> OwnerWaits {
        match self.0.get(owner) {
            None => OwnerWaits::None,
            Some(Calls::One(queue, list)) => match list.first {
                Some(first) => OwnerWaits::One(*queue, first),
                None => OwnerWaits::None,
            },
            Some(Calls::Several(_)) => OwnerWaits::Several,
        }
    }

    /// The calls of an owner in a queue.
    pub(super) fn list(&self, owner: &[u8], queue: QueueId) -> Option<&List> {
        match self.0.get(owner)? {
            Calls::One(own, list) => (*own == queue).then_some(list),
            Calls::Several(lists) => lists.get(&queue),
        }
    }

    /// Changes the calls of an owner in a queue, where it may have none yet.
    pub(super) fn append<R>(
        &mut self,
        owner: &OwnerBuf,
        queue: QueueId,
        append: impl FnOnce(&mut List) -> R,
    ) -> R {
        let calls = self.0.entry(owner.clone());
        let calls = calls.or_insert_with(|| Calls::One(queue, List::default()));
        if let Calls::One(own, list) = calls
            && *own != queue
        {
            let lists = [(*own, *list), (queue, List::default())];
            *calls = Calls::Several(Map::from_iter(lists));
        }
        append(match calls {
            Calls::One(_, list) => list,
            Calls::Several(lists) => lists.entry(queue).or_default(),
        })
    }

    /// Changes the calls of an owner in a queue, of which none may be left.
    pub(super) fn remove(
        &mut self,
        owner: &OwnerBuf,
        queue: QueueId,
        remove: impl FnOnce(&mut List),
    ) {
        let Entry::Occupied(mut calls) = self.0.entry(owner.clone()) else {
            return;
        };
        match calls.get_mut() {
            Calls::One(_, list) => {
                remove(list);
                if list.length == 0 {
                    calls.remove();
                    shrink_if_sparse(&mut self.0);
                }
            }
            calls @ Calls::Several(_) => calls.remove_of_several(queue, remove),
        }
    }

    #[cfg(any(test, fuzzing))]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Every list, with its owner and queue, and whether it is the only one of its owner.
    #[cfg(any(test, fuzzing))]
    pub(super) fn lists(&self) -> Vec<(&OwnerBuf, QueueId, List, bool)> {
        let mut all = Vec::new();
        for (owner, calls) in &self.0 {
            match calls {
                Calls::One(queue, list) => all.push((owner, *queue, *list, true)),
                Calls::Several(lists) => {
                    all.extend(
                        lists
                            .iter()
                            .map(|(queue, list)| (owner, *queue, *list, false)),
                    );
                }
            }
        }
        all
    }
}

impl Calls {
    #[cold]
    fn remove_of_several(&mut self, queue: QueueId, remove: impl FnOnce(&mut List)) {
        let Self::Several(lists) = self else { return };
        if let Some(list) = lists.get_mut(&queue) {
            remove(list);
            if list.length == 0 {
                lists.remove(&queue);
                shrink_if_sparse(lists);
            }
        }
        if lists.len() == 1
            && let Some((queue, list)) = lists.iter().next()
        {
            *self = Self::One(*queue, *list);
        }
    }
}
