//! One owner for several locks.

use crate::hold::Hold;
use crate::lock::Lock;
use crate::locks::Locks;
use crate::mutex::lock;
use crate::state::TaskOwner;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

pub(crate) type Held = HashMap<Arc<[u8]>, Weak<Hold>>;

/// One owner for all locks of one piece of work. It enters a lock again that it holds, and the server finds a deadlock
/// among tasks. Pass it along with the work; never share it between two.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// # let locks = redis_lock_client::testing::StandIn::new().locks();
/// let task = locks.task();
/// let outer = task.lock("lock:orders:42").acquire().await?;
/// let inner = task.lock("lock:orders:42").acquire().await?; // does not wait
/// assert_eq!(inner.token(), outer.token());
/// inner.release().await?;
/// assert!(outer.is_held());
/// outer.release().await?;
/// # Ok::<_, redis_lock_client::Error>(())
/// # }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) locks: Locks,
    pub(crate) owner: Arc<TaskOwner>,
    pub(crate) held: Arc<Mutex<Held>>,
}

impl Task {
    /// As [`Locks::lock`]. If the task holds the lock already, an acquire adds a hold, which has a guard of its own.
    pub fn lock(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(&self.locks, Some(self), key.as_ref(), Some(1))
    }

    /// As [`Locks::shared`].
    pub fn shared(&self, key: impl AsRef<[u8]>) -> Lock {
        Lock::new(&self.locks, Some(self), key.as_ref(), None)
    }

    /// As [`Locks::permit`]: each permit has an owner of its own, in a task too.
    pub fn permit(&self, key: impl AsRef<[u8]>, of: u32) -> Lock {
        self.locks.permit(key, of)
    }

    /// The hold of the task on a key, if it stands.
    pub(crate) fn held(&self, key: &[u8]) -> Option<Arc<Hold>> {
        let hold = lock(&self.held).get(key).and_then(Weak::upgrade)?;
        hold.stands().then_some(hold)
    }

    pub(crate) fn remember(&self, hold: &Arc<Hold>) {
        let mut holds = lock(&self.held);
        holds.retain(|_, hold| hold.strong_count() > 0);
        holds.insert(Arc::clone(&hold.name.key), Arc::downgrade(hold));
    }
}
