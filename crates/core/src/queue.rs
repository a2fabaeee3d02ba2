//! The queues of waiting calls, first in first out.
//!
//! Every waiting call is in two lists: the queue of its key, and the calls of its owner in that queue,
//! which are granted together. Both are linked lists over one table, so joining, leaving and finding
//! the first take constant time. The ends of the waits are in one set, ordered by time.
//!
//! The lists of an owner are found by its name, for all queues at once: so that is also the index of who
//! waits for what (`owners.rs`), and costs no more than a table of owners in each queue.

mod exclusive;
mod list;
mod owners;
mod waiter;

use std::collections::BTreeSet;
use std::sync::Arc;

use super::map::shrink_if_sparse;
use super::{Limit, LockId, Map, Monotonic};
use exclusive::ExclusiveCalls;
use list::{Links, List};
use owners::Owners;

pub use owners::OwnerWaits;
pub use waiter::{QueueWaits, Waiter, WaiterId};

/// All queues of a server.
#[derive(Debug, Default)]
pub struct Queues {
    databases: Map<i32, Map<Arc<[u8]>, Queue>>,
    nodes: Map<WaiterId, Node>,
    owners: Owners,
    ends: BTreeSet<(Monotonic, WaiterId)>,
    last_id: u64,
}

/// Identifies a queue, from its first call to its last. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(WaiterId);

#[derive(Debug)]
struct Queue {
    id: QueueId,
    all: List,
    exclusive: ExclusiveCalls,
    /// See [`QueueWaits::since_sum`].
    since_sum: u128,
}

#[derive(Debug)]
struct Node {
    waiter: Waiter,
    lock_id: LockId,
    in_queue: Links,
    of_owner: Links,
}

impl Queues {
    /// No queues.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many calls wait, for all keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// True when nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many calls wait for this key.
    #[must_use]
    pub fn waiting(&self, database: i32, key: &[u8]) -> usize {
        self.queue(database, key)
            .map_or(0, |queue| queue.all.length)
    }

    /// True when this call is the first in its queue.
    #[must_use]
    pub fn is_first(&self, id: WaiterId) -> bool {
        let node = self.nodes.get(&id);
        node.is_some_and(|node| node.in_queue.previous.is_none())
    }

    /// Appends a call to the queue of a key.
    pub fn join(&mut self, database: i32, key: &[u8], waiter: Waiter) -> WaiterId {
        self.last_id += 1;
        let id = WaiterId(self.last_id);
        let queues = self.databases.entry(database).or_default();
        let key = match queues.get_key_value(key) {
            Some((key, _)) => Arc::clone(key),
            None => Arc::from(key),
        };
        let queue = queues
            .entry(Arc::clone(&key))
            .or_insert_with(|| Queue::new(QueueId(id)));
        queue.since_sum += u128::from(waiter.since.0);
        let of_owner = |list: &mut List| list.append(id);
        let of_owner = self.owners.append(&waiter.owner, queue.id, of_owner);
        let is_first_of_owner = of_owner.previous.is_none();
        queue.exclusive.joined(id, waiter.limit, is_first_of_owner);
        let node = Node {
            in_queue: queue.all.append(id),
            of_owner,
            lock_id: LockId { database, key },
            waiter,
        };
        if let Some(previous) = node
            .in_queue
            .previous
            .and_then(|id| self.nodes.get_mut(&id))
        {
            previous.in_queue.next = Some(id);
        }
        if let Some(previous) = node
            .of_owner
            .previous
            .and_then(|id| self.nodes.get_mut(&id))
        {
            previous.of_owner.next = Some(id);
        }
        if let Some(until) = node.waiter.until {
            self.ends.insert((until, id));
        }
        self.nodes.insert(id, node);
        id
    }

    /// Removes a call from any place of its queue.
    pub fn remove(&mut self, id: WaiterId) -> Option<(LockId, Waiter)> {
        let node = self.nodes.remove(&id)?;
        shrink_if_sparse(&mut self.nodes);
        if let Some(until) = node.waiter.until {
            self.ends.remove(&(until, id));
        }
        self.link_neighbours(node.in_queue, |node| &mut node.in_queue);
        self.link_neighbours(node.of_owner, |node| &mut node.of_owner);
        if let Some(queues) = self.databases.get_mut(&node.lock_id.database) {
            if let Some(queue) = queues.get_mut(&node.lock_id.key) {
                queue.all.remove(node.in_queue);
                queue.since_sum -= u128::from(node.waiter.since.0);
                let of_owner = |list: &mut List| list.remove(node.of_owner);
                self.owners.remove(&node.waiter.owner, queue.id, of_owner);
                queue.exclusive.left(id, node.waiter.limit);
                if let (None, Some(next)) = (node.of_owner.previous, node.of_owner.next)
                    && let Some(next_node) = self.nodes.get(&next)
                {
                    queue.exclusive.became_first(next, next_node.waiter.limit);
                }
                if queue.all.length == 0 {
                    queues.remove(&node.lock_id.key);
                    shrink_if_sparse(queues);
                }
            }
            if queues.is_empty() {
                self.databases.remove(&node.lock_id.database);
            }
        }
        Some((node.lock_id, node.waiter))
    }

    /// The waiting call with this id.
    #[must_use]
    pub fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.nodes.get(&id).map(|node| &node.waiter)
    }

    /// The first call in the queue of a key.
    #[must_use]
    pub fn first(&self, database: i32, key: &[u8]) -> Option<WaiterId> {
        self.queue(database, key)?.all.first
    }

    /// The first call of this owner in the queue of a key.
    #[must_use]
    pub fn first_of(&self, database: i32, key: &[u8], owner: &[u8]) -> Option<WaiterId> {
        let queue = self.queue(database, key)?;
        self.owners.list(owner, queue.id)?.first
    }

    /// What this owner waits for, in all databases.
    #[must_use]
    pub fn waits_of(&self, owner: &[u8]) -> OwnerWaits {
        self.owners.waits_of(owner)
    }

    /// The lock that a call waits for.
    #[must_use]
    pub fn lock_of(&self, id: WaiterId) -> Option<&LockId> {
        self.nodes.get(&id).map(|node| &node.lock_id)
    }

    /// The first call in the queue of a key that is the first of its owner there and has limit 1, if it
    /// stands before this call, or before a new one.
    #[must_use]
    pub fn first_exclusive(
        &self,
        database: i32,
        key: &[u8],
        before: Option<WaiterId>,
    ) -> Option<WaiterId> {
        let queue = self.queue(database, key)?;
        let head = queue.all.first?;
        let first = if self.get(head)?.limit == Limit::ONE {
            head
        } else {
            queue.exclusive.first_after_wider_head()?
        };
        before.is_none_or(|before| first < before).then_some(first)
    }

    /// The calls that wait for a key, in the order of the queue.
    pub fn iter(&self, database: i32, key: &[u8]) -> impl Iterator<Item = (WaiterId, &Waiter)> {
        let mut next = self.first(database, key);
        std::iter::from_fn(move || {
            let id = next?;
            let node = self.nodes.get(&id)?;
            next = node.in_queue.next;
            Some((id, &node.waiter))
        })
    }

    /// The wait that ends first, and when.
    #[must_use]
    pub fn next_end(&self) -> Option<(Monotonic, WaiterId)> {
        self.ends.first().copied()
    }

    /// The locks that somebody waits for, of one database or of all.
    #[must_use]
    pub fn lock_ids(&self, database: Option<i32>) -> Vec<LockId> {
        self.databases
            .iter()
            .filter(|(number, _)| database.is_none_or(|wanted| wanted == **number))
            .flat_map(|(number, queues)| {
                queues.keys().map(|key| LockId {
                    database: *number,
                    key: Arc::clone(key),
                })
            })
            .collect()
    }

    /// The length of the longest queue.
    #[must_use]
    pub fn max_waiting(&self) -> usize {
        let queues = self.databases.values().flat_map(Map::values);
        queues.map(|queue| queue.all.length).max().unwrap_or(0)
    }

    /// The current waits for each key of a database.
    pub fn waits(&self, database: i32) -> impl Iterator<Item = (&Arc<[u8]>, QueueWaits)> {
        let queues = self.databases.get(&database).into_iter().flatten();
        queues.filter_map(|(key, queue)| {
            let first = self.get(queue.all.first?)?;
            let waits = QueueWaits {
                count: queue.all.length,
                since_sum: queue.since_sum,
                first_since: first.since,
            };
            Some((key, waits))
        })
    }

    fn queue(&self, database: i32, key: &[u8]) -> Option<&Queue> {
        self.databases.get(&database)?.get(key)
    }

    /// Links the neighbours of a removed node with each other.
    fn link_neighbours(&mut self, removed: Links, links: impl Fn(&mut Node) -> &mut Links) {
        if let Some(previous) = removed.previous.and_then(|id| self.nodes.get_mut(&id)) {
            links(previous).next = removed.next;
        }
        if let Some(next) = removed.next.and_then(|id| self.nodes.get_mut(&id)) {
            links(next).previous = removed.previous;
        }
    }
}

impl Queue {
    fn new(id: QueueId) -> Self {
        Self {
            id,
            all: List::default(),
            exclusive: ExclusiveCalls::default(),
            since_sum: 0,
        }
    }
}

#[cfg(any(test, fuzzing))]
mod checks;
#[cfg(test)]
mod tests;
