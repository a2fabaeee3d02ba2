//! The kept grants, by lock and token.

use std::sync::Arc;

use super::of_lock::{Due, OfLock};
use super::silence::Silence;
use crate::shards::Shards;
use crate::{Deadline, Lease, LockId, Map, Monotonic, Token};

/// What names a grant: its lock and its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantName<'a> {
    /// The database's number.
    pub database: i32,
    /// The name of the key.
    pub key: &'a [u8],
    /// The grant's token.
    pub token: Token,
}

/// A kept grant, as the registry has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptGrant {
    /// Its lock.
    pub lock_id: LockId,
    /// Its token.
    pub token: Token,
    /// The lease that it remembers.
    pub lease: Lease,
    /// The connection that keeps it.
    pub client_id: u64,
    /// How long that connection may be silent for this grant.
    pub silence: Silence,
}

impl KeptGrant {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> GrantName<'_> {
        GrantName {
            database: self.lock_id.database,
            key: &self.lock_id.key,
            token: self.token,
        }
    }
}

/// Identifies a kept grant in the registry. Never used again.
pub(super) type GrantId = u64;
/// Identifies a connection in the registry. Never used again.
pub(super) type ConnectionId = u64;

/// What is known of a kept grant.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) lock_id: LockId,
    pub(super) token: Token,
    pub(super) connection: ConnectionId,
    pub(super) lease: Lease,
    pub(super) silence: Silence,
    /// The end of its lease, as it was last seen.
    pub(super) deadline: Deadline,
    /// The deadline is in the order of ends: it is not while the caller looks at an ended lease.
    pub(super) in_ends: bool,
    /// Changed by [`Grants::set_due`] alone.
    pub(super) due: Due,
    /// Its lock has an order of what is due; kept by [`Grants`].
    pub(super) is_one_of_many: bool,
}

/// All kept grants, those of forgotten connections too.
#[derive(Debug, Default)]
pub(super) struct Grants {
    nodes: Shards<GrantId, Node>,
    databases: Map<i32, Shards<Arc<[u8]>, OfLock>>,
    last_id: GrantId,
}

impl Grants {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = (GrantId, &Node)> {
        self.nodes.iter().map(|(id, node)| (*id, node))
    }

    /// Panics when a lock's order of what is due does not fit its grants.
    #[cfg(test)]
    pub(super) fn check_due(&self) {
        let locks = self.databases.values().flat_map(Shards::iter);
        for (_, of_lock) in locks {
            of_lock.check(|id| {
                let node = self.nodes.get(&id).expect("a grant");
                (node.due, node.is_one_of_many)
            });
        }
    }

    /// True when no index has anything.
    #[cfg(test)]
    pub(super) fn is_bare(&self) -> bool {
        self.databases.is_empty()
    }

    pub(super) fn get(&self, id: GrantId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: GrantId) -> Option<&mut Node> {
        self.nodes.get_mut(&id)
    }

    pub(super) fn find(&self, name: GrantName<'_>) -> Option<GrantId> {
        let locks = self.databases.get(&name.database)?;
        locks.get(name.key)?.get(name.token)
    }

    /// When to do something about a grant, and whether it is held up; returns what was so before.
    pub(super) fn set_due(&mut self, id: GrantId, due: Due) -> Option<Due> {
        let node = self.nodes.get_mut(&id)?;
        let before = std::mem::replace(&mut node.due, due);
        if node.is_one_of_many && before.since() != due.since() {
            let LockId { database, key } = &node.lock_id;
            let locks = self.databases.get_mut(database);
            if let Some(of_lock) = locks.and_then(|locks| locks.get_mut(&**key)) {
                of_lock.moved(id, before, due);
            }
        }
        Some(before)
    }

    /// The grants of a lock that are due, those of forgotten connections too.
    pub(super) fn due_of(
        &self,
        database: i32,
        key: &[u8],
        now: Monotonic,
    ) -> impl Iterator<Item = GrantId> {
        let locks = self.databases.get(&database);
        let of_lock = locks.and_then(|locks| locks.get(key));
        let due = |id| self.nodes.get(&id).map(|node| node.due);
        of_lock
            .into_iter()
            .flat_map(move |of_lock| of_lock.due(now, due))
    }

    /// The grants of a lock.
    pub(super) fn of_lock(&self, database: i32, key: &[u8]) -> Vec<GrantId> {
        let locks = self.databases.get(&database);
        let of_lock = locks.and_then(|locks| locks.get(key));
        of_lock.map_or_else(Vec::new, OfLock::ids)
    }

    /// The grants of a database.
    pub(super) fn of_database(&self, database: i32) -> Vec<GrantId> {
        let locks = self.databases.get(&database);
        let locks = locks.into_iter().flat_map(Shards::iter);
        locks.flat_map(|(_, of_lock)| of_lock.ids()).collect()
    }

    /// The identity of this lock: its bytes are shared by all its grants.
    pub(super) fn lock_id(&self, database: i32, key: &[u8]) -> LockId {
        let locks = self.databases.get(&database);
        match locks.and_then(|locks| locks.get_key_value(key)) {
            Some((key, _)) => LockId {
                database,
                key: Arc::clone(key),
            },
            None => LockId::new(database, key),
        }
    }

    /// Adds a grant that is not there.
    pub(super) fn insert(&mut self, node: Node) -> GrantId {
        let mut node = node;
        self.last_id += 1;
        self.index(&mut node, self.last_id);
        self.nodes.insert(self.last_id, node);
        self.last_id
    }

    pub(super) fn remove(&mut self, id: GrantId) -> Option<Node> {
        let node = self.nodes.remove(&id)?;
        self.unindex(&node, id);
        Some(node)
    }

    /// The grant has another token from now on.
    pub(super) fn raise(&mut self, id: GrantId, to: Token) {
        if let Some(mut node) = self.nodes.remove(&id) {
            self.unindex(&node, id);
            node.token = to;
            self.index(&mut node, id);
            self.nodes.insert(id, node);
        }
    }

    fn index(&mut self, node: &mut Node, id: GrantId) {
        let locks = self.databases.entry(node.lock_id.database).or_default();
        let Some(of_lock) = locks.get_mut(&*node.lock_id.key) else {
            node.is_one_of_many = false;
            let one = OfLock::One(node.token, id);
            locks.insert(Arc::clone(&node.lock_id.key), one);
            return;
        };
        if let OfLock::One(_, other) = of_lock
            && let Some(other) = self.nodes.get_mut(other)
        {
            other.is_one_of_many = true;
            of_lock.become_many(other.due);
        }
        node.is_one_of_many = true;
        of_lock.insert(node.token, id, node.due);
    }

    fn unindex(&mut self, node: &Node, id: GrantId) {
        let LockId { database, key } = &node.lock_id;
        let Some(locks) = self.databases.get_mut(database) else {
            return;
        };
        let is_last = locks
            .get_mut(&**key)
            .is_some_and(|of_lock| of_lock.remove(node.token, id, node.due));
        if is_last {
            locks.remove(&**key);
        }
        if locks.len() == 0 {
            self.databases.remove(database);
        }
    }
}
