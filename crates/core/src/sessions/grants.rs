//! The grants of all sessions, by lock and token.

use super::lock_grants::{Entry, LockGrants};
use super::session::SessionId;
use crate::lock_id::LockName;
use crate::shards::Shards;
use crate::{Deadline, Lease, LockId, Monotonic, OwnerBuf, Token};

/// Identifies a grant by its lock and its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantName<'a> {
    /// The database's number.
    pub database: i32,
    /// The name of the key.
    pub key: &'a [u8],
    /// The grant's token.
    pub token: Token,
}

/// A grant of a session, as it was last recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionGrant {
    /// The session.
    pub session: SessionId,
    /// The lock.
    pub lock_id: LockId,
    /// The owner.
    pub owner: OwnerBuf,
    /// The token.
    pub token: Token,
    /// The remembered lease.
    pub lease: Lease,
    /// The end of the lease.
    pub deadline: Deadline,
    /// Set when the grant is added.
    pub(super) id: GrantId,
}

impl SessionGrant {
    /// The name of the grant.
    #[must_use]
    pub fn name(&self) -> GrantName<'_> {
        GrantName {
            database: self.lock_id.database,
            key: &self.lock_id.key,
            token: self.token,
        }
    }
}

/// Identifies a grant inside [`Grants`]. Ids are never reused.
pub(super) type GrantId = u64;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) grant: SessionGrant,
    /// When to renew or check the grant.
    pub(super) due: Monotonic,
}

impl Node {
    fn entry(&self) -> Entry {
        Entry {
            id: self.grant.id,
            token: self.grant.token,
            session: self.grant.session,
            due: self.due,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Grants {
    nodes: Shards<GrantId, Node>,
    locks: Shards<LockId, LockGrants>,
    last_id: GrantId,
}

impl Grants {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Panics unless each lock fits its grants.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut grants = 0;
        for (lock_id, lock) in self.locks.iter() {
            let ids = lock.ids();
            assert!(!ids.is_empty(), "no lock is left behind");
            let nodes = ids.iter().map(|id| self.nodes.get(id).expect("a grant"));
            let nodes: Vec<_> = nodes.collect();
            assert!(nodes.iter().all(|node| node.grant.lock_id == *lock_id));
            let entries: Vec<_> = nodes.iter().map(|node| node.entry()).collect();
            lock.check(&entries);
            grants += nodes.len();
        }
        assert_eq!(grants, self.nodes.len());
    }

    pub(super) fn get(&self, id: GrantId) -> Option<&Node> {
        self.nodes.get(&id)
    }

    /// The grant and its session.
    pub(super) fn find(&self, name: GrantName<'_>) -> Option<(GrantId, SessionId)> {
        self.lock(name.database, name.key)?.get(name.token)
    }

    /// Like [`find`](Grants::find), but also returns the identity of the lock, so that all grants of a lock share the
    /// bytes of its name.
    pub(super) fn locate(&self, name: GrantName<'_>) -> (LockId, Option<(GrantId, SessionId)>) {
        let (database, key) = (name.database, name.key);
        match self.locks.get_key_value(&LockName(database, key)) {
            Some((lock_id, lock)) => (lock_id.clone(), lock.get(name.token)),
            None => (LockId::new(database, key), None),
        }
    }

    pub(super) fn lock(&self, database: i32, key: &[u8]) -> Option<&LockGrants> {
        self.locks.get(&LockName(database, key))
    }

    pub(super) fn lock_mut(&mut self, database: i32, key: &[u8]) -> Option<&mut LockGrants> {
        self.locks.get_mut(&LockName(database, key))
    }

    pub(super) fn of_lock(&self, database: i32, key: &[u8]) -> Vec<GrantId> {
        let lock = self.lock(database, key);
        lock.map_or_else(Vec::new, LockGrants::ids)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &SessionGrant> {
        self.nodes.iter().map(|(_, node)| &node.grant)
    }

    /// The id of the grant that was added last.
    pub(super) const fn last_id(&self) -> GrantId {
        self.last_id
    }

    /// Adds a grant, which must be new.
    pub(super) fn insert(&mut self, node: Node) -> GrantId {
        self.last_id += 1;
        let mut node = node;
        node.grant.id = self.last_id;
        self.add(node);
        self.last_id
    }

    pub(super) fn remove(&mut self, id: GrantId) -> Option<Node> {
        let node = self.nodes.remove(&id)?;
        let entry = node.entry();
        self.locks
            .remove_if(&node.grant.lock_id, |lock| lock.remove(entry));
        Some(node)
    }

    /// Changes the token of a grant.
    pub(super) fn raise(&mut self, id: GrantId, to: Token) {
        if let Some(mut node) = self.remove(id) {
            node.grant.token = to;
            self.add(node);
        }
    }

    /// Changes a grant's lease, deadline and due time. Returns its session and the values before the change.
    pub(super) fn set(
        &mut self,
        id: GrantId,
        lease: Lease,
        deadline: Deadline,
        due: Monotonic,
    ) -> Option<(SessionId, (Lease, Deadline), Monotonic)> {
        let node = self.nodes.get_mut(&id)?;
        let grant = &mut node.grant;
        let before = (grant.session, (grant.lease, grant.deadline), node.due);
        (grant.lease, grant.deadline) = (lease, deadline);
        node.due = due;
        if let Some(lock) = self.locks.get_mut(&node.grant.lock_id) {
            lock.set_due(id, before.2, due);
        }
        Some(before)
    }

    fn add(&mut self, node: Node) {
        let entry = node.entry();
        let lock_id = node.grant.lock_id.clone();
        let lock = self
            .locks
            .get_or_insert_with(lock_id, || LockGrants::One(entry));
        lock.insert(entry);
        self.nodes.insert(node.grant.id, node);
    }
}
