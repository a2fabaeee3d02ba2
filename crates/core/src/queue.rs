//! The queues of waiting calls, first in first out.
//!
//! Every waiting call is in two lists: the queue of its key, and the calls of its owner in that queue,
//! which are granted together. Both are linked lists over one table, so joining, leaving and finding
//! the first take constant time. The ends of the waits are in one set, ordered by time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::keeping::Silence;
use super::map::shrink_if_sparse;
use super::{Holds, Lease, Limit, Map, OwnerBuf};

/// A time of a monotonic clock, in microseconds since some start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Monotonic(pub u64);

impl Monotonic {
    /// The time `length` later.
    #[must_use]
    pub fn plus(self, length: Duration) -> Self {
        let micros = u64::try_from(length.as_micros()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(micros))
    }

    /// The time passed since `earlier`; zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }
}

/// Identifies a waiting call. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaiterId(u64);

/// A waiting call: who waits, for what, and how long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The owner that asks.
    pub owner: OwnerBuf,
    /// The lease asked for.
    pub lease: Option<Lease>,
    /// How many holds the caller wants to have afterwards.
    pub holds: Option<Holds>,
    /// How many holders the caller bears.
    pub limit: Limit,
    /// How long the connection may be silent that keeps the grant, if one is to.
    pub keep: Option<Silence>,
    /// The caller named the limit, and its reply tells the one in force.
    pub names_limit: bool,
    /// The connection that waits.
    pub client_id: u64,
    /// When the wait began.
    pub since: Monotonic,
    /// When it ends; `None` for never.
    pub until: Option<Monotonic>,
}

/// A lock's identity: a key of a database.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockId {
    /// The database's number.
    pub database: i32,
    /// The key's name.
    pub key: Arc<[u8]>,
}

impl LockId {
    /// The lock of this key of this database.
    #[must_use]
    pub fn new(database: i32, key: &[u8]) -> Self {
        Self {
            database,
            key: Arc::from(key),
        }
    }

    /// True for this key of this database.
    #[must_use]
    pub fn is(&self, database: i32, key: &[u8]) -> bool {
        self.database == database && *self.key == *key
    }

    /// The lowest of all in their order.
    pub(super) fn before_all() -> Self {
        Self {
            database: i32::MIN,
            key: Arc::from([]),
        }
    }
}

/// The waits for one lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueWaits {
    /// How many.
    pub count: usize,
    /// The sum of the times when they began, in microseconds.
    pub since_sum: u128,
    /// When the first in the queue began.
    pub first_since: Monotonic,
}

/// All queues of a server.
#[derive(Debug, Default)]
pub struct Queues {
    databases: Map<i32, Map<Arc<[u8]>, Queue>>,
    nodes: Map<WaiterId, Node>,
    ends: BTreeSet<(Monotonic, WaiterId)>,
    last_id: u64,
}

#[derive(Debug, Default)]
struct Queue {
    all: List,
    owners: Map<OwnerBuf, List>,
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

/// The first and last call of a list, and its length.
#[derive(Clone, Copy, Debug, Default)]
struct List {
    first: Option<WaiterId>,
    last: Option<WaiterId>,
    length: usize,
}

/// A node's neighbours in a list.
#[derive(Clone, Copy, Debug, Default)]
struct Links {
    previous: Option<WaiterId>,
    next: Option<WaiterId>,
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
        let queue = queues.entry(Arc::clone(&key)).or_default();
        queue.since_sum += u128::from(waiter.since.0);
        let of_owner = queue.owners.entry(waiter.owner.clone()).or_default();
        let node = Node {
            in_queue: queue.all.append(id),
            of_owner: of_owner.append(id),
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
                if let Some(list) = queue.owners.get_mut(&node.waiter.owner) {
                    list.remove(node.of_owner);
                    if list.length == 0 {
                        queue.owners.remove(&node.waiter.owner);
                        shrink_if_sparse(&mut queue.owners);
                    }
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
        self.queue(database, key)?.owners.get(owner)?.first
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

impl List {
    /// Appends `id`; returns the links of its node.
    fn append(&mut self, id: WaiterId) -> Links {
        let previous = self.last.replace(id);
        if previous.is_none() {
            self.first = Some(id);
        }
        self.length += 1;
        Links {
            previous,
            next: None,
        }
    }

    /// Removes the node that had these links.
    fn remove(&mut self, removed: Links) {
        if removed.previous.is_none() {
            self.first = removed.next;
        }
        if removed.next.is_none() {
            self.last = removed.previous;
        }
        self.length -= 1;
    }
}

#[cfg(any(test, fuzzing))]
#[path = "queue_checks.rs"]
mod checks;
#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
