//! A lock's identity: database and key.

use std::sync::Arc;

use hashbrown::Equivalent;

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

    /// Returns true if the lock has this database and key.
    #[must_use]
    pub fn is(&self, database: i32, key: &[u8]) -> bool {
        self.database == database && *self.key == *key
    }
}

/// A borrowed [`LockId`] for lookups.
#[derive(Clone, Copy, Hash)]
pub(crate) struct LockName<'a>(pub(crate) i32, pub(crate) &'a [u8]);

impl Equivalent<LockId> for LockName<'_> {
    fn equivalent(&self, id: &LockId) -> bool {
        id.is(self.0, self.1)
    }
}
